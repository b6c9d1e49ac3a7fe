#pragma once

#include <sys/stat.h>

#include <string>
#include <vector>

#include "base/json.hpp"
#include "base/sha256.hpp"
#include "image/oci_choose.hpp"
#include "unit/image/tar_builder.hpp"
#include "unit/sys/temp_dir.hpp"

namespace berth::image {

/// An OCI layout in a directory, blob by blob, so that a test can lie in any of them.
class OciBuilder {
public:
    struct Layer {
        std::string tar;
        std::string media_type = "application/vnd.oci.image.layer.v1.tar";
        int (*filter)(archive*) = nullptr;
    };

    explicit OciBuilder(const sys::TempDir& dir, const std::string& name = "image") : dir_(dir), name_(name)
    {
        for (const char* part : {"", "/blobs", "/blobs/sha256"}) dir.make_dir(name + part);
        write("oci-layout", R"({"imageLayoutVersion":"1.0.0"})");
    }
    [[nodiscard]] std::string path() const { return dir_ / name_; }
    void write(const std::string& file, const std::string& bytes) const
    {
        dir_.write(name_ + "/" + file, bytes);
    }

    /// Its digest.
    std::string blob(const std::string& bytes) const
    {
        const std::string sha256 = sha256_hex(bytes);
        write("blobs/sha256/" + sha256, bytes);
        return sha256;
    }
    json::Object descriptor(const std::string& media_type, const std::string& bytes) const
    {
        json::Object out;
        out["mediaType"] = media_type;
        out["digest"] = "sha256:" + blob(bytes);
        out["size"] = bytes.size();
        return out;
    }
    /// The manifest's descriptor, to be put into an index.
    json::Object manifest(const std::vector<Layer>& layers, json::Object config = {},
                          const std::string& architecture = oci::machine_architecture()) const
    {
        json::Array diff_ids;
        json::Array described;
        for (const auto& layer : layers) {
            diff_ids.emplace_back("sha256:" + sha256_hex(layer.tar));
            described.emplace_back(descriptor(
                layer.media_type, layer.filter == nullptr ? layer.tar : compressed(layer.tar, layer.filter)));
        }
        json::Object document;
        document["os"] = "linux";
        document["architecture"] = architecture;
        document["config"] = std::move(config);
        document["rootfs"] = json::Object{{"type", "layers"}, {"diff_ids", std::move(diff_ids)}};
        json::Object out;
        out["schemaVersion"] = 2;
        out["config"] = descriptor("application/vnd.oci.image.config.v1+json", json::dump(document));
        out["layers"] = std::move(described);
        json::Object told = descriptor("application/vnd.oci.image.manifest.v1+json", json::dump(out));
        told["platform"] = json::Object{{"os", "linux"}, {"architecture", architecture}};
        return told;
    }
    static json::Object tagged(json::Object descriptor, const std::string& tag)
    {
        descriptor["annotations"] = json::Object{{"org.opencontainers.image.ref.name", tag}};
        return descriptor;
    }
    static std::string index(json::Array manifests)
    {
        json::Object out;
        out["schemaVersion"] = 2;
        out["manifests"] = std::move(manifests);
        return json::dump(out);
    }
    void finish(json::Array manifests) const { write("index.json", index(std::move(manifests))); }
    void image(const std::vector<Layer>& layers, json::Object config = {}) const
    {
        finish({manifest(layers, std::move(config))});
    }

private:
    const sys::TempDir& dir_;
    std::string name_;
};

} // namespace berth::image
