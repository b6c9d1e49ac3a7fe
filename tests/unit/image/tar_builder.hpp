#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

#include <archive.h>
#include <archive_entry.h>

#include "base/io.hpp"
#include "base/unique_fd.hpp"

namespace berth::image {

/// A tar archive written header by header, so that a test can say anything, true or not.
class RawTar {
public:
    struct Header {
        std::string name;
        char type = '0';
        std::string link{};
        unsigned long long size = 0;
        unsigned mode = 0644;
        unsigned uid = 0;
        unsigned gid = 0;
        unsigned major = 0;
        unsigned minor = 0;
    };

    RawTar& header(const Header& h)
    {
        char block[512] = {};
        std::memcpy(block, h.name.data(), std::min<std::size_t>(h.name.size(), 100));
        octal(block + 100, 8, h.mode);
        octal(block + 108, 8, h.uid);
        octal(block + 116, 8, h.gid);
        octal(block + 124, 12, h.size);
        octal(block + 136, 12, 1'000'000'000);
        block[156] = h.type;
        std::memcpy(block + 157, h.link.data(), std::min<std::size_t>(h.link.size(), 100));
        std::memcpy(block + 257, "ustar\00000", 8);
        octal(block + 329, 8, h.major);
        octal(block + 337, 8, h.minor);
        std::memset(block + 148, ' ', 8);
        unsigned sum = 0;
        for (const char c : block) sum += static_cast<unsigned char>(c);
        octal(block + 148, 7, sum);
        bytes_.append(block, sizeof block);
        return *this;
    }
    RawTar& content(const std::string& bytes)
    {
        bytes_ += bytes;
        bytes_.append((512 - bytes.size() % 512) % 512, '\0');
        return *this;
    }
    RawTar& file(const std::string& name, const std::string& bytes, unsigned mode = 0644)
    {
        if (name.size() > 100) long_name(name);
        return header({.name = name, .size = bytes.size(), .mode = mode}).content(bytes);
    }
    RawTar& directory(const std::string& name, unsigned mode = 0755)
    {
        return header({.name = name, .type = '5', .mode = mode});
    }
    RawTar& symlink(const std::string& name, const std::string& target)
    {
        return header({.name = name, .type = '2', .link = target, .mode = 0777});
    }
    RawTar& hardlink(const std::string& name, const std::string& target)
    {
        return header({.name = name, .type = '1', .link = target});
    }
    RawTar& device(const std::string& name, char type, unsigned major, unsigned minor)
    {
        return header({.name = name, .type = type, .major = major, .minor = minor});
    }
    RawTar& pax(const std::string& key, const std::string& value)
    {
        const std::size_t rest = key.size() + value.size() + 3;
        std::size_t total = rest + 1;
        while (total != rest + std::to_string(total).size()) ++total;
        const std::string record = std::to_string(total) + " " + key + "=" + value + "\n";
        return header({.name = "pax", .type = 'x', .size = record.size()}).content(record);
    }
    RawTar& long_name(const std::string& name)
    {
        return header({.name = "././@LongLink", .type = 'L', .size = name.size()}).content(name);
    }
    [[nodiscard]] std::string done() const { return bytes_ + std::string(1024, '\0'); }
    [[nodiscard]] const std::string& so_far() const { return bytes_; }

private:
    static void octal(char* field, int width, unsigned long long value)
    {
        char text[32];
        std::snprintf(text, sizeof text, "%0*llo", width - 1, value);
        std::memcpy(field, text, static_cast<std::size_t>(width - 1));
    }
    std::string bytes_;
};

/// `bytes` through one of libarchive's compressors: archive_write_add_filter_gzip and the like.
inline std::string compressed(const std::string& bytes, int (*add_filter)(archive*))
{
    std::string out;
    archive* a = ::archive_write_new();
    add_filter(a);
    ::archive_write_set_format_raw(a);
    ::archive_write_set_bytes_in_last_block(a, 1);
    const auto append = [](archive*, void* to, const void* from, std::size_t size) {
        static_cast<std::string*>(to)->append(static_cast<const char*>(from), size);
        return static_cast<la_ssize_t>(size);
    };
    ::archive_write_open(a, &out, nullptr, append, nullptr);
    archive_entry* entry = ::archive_entry_new();
    ::archive_entry_set_filetype(entry, AE_IFREG);
    ::archive_write_header(a, entry);
    if (::archive_write_data(a, bytes.data(), bytes.size()) < 0)
        throw std::runtime_error(::archive_error_string(a));
    ::archive_entry_free(entry);
    ::archive_write_free(a);
    return out;
}

/// A descriptor from which `bytes` can be read.
inline UniqueFd as_file(const std::string& bytes)
{
    UniqueFd fd(::memfd_create("tar", MFD_CLOEXEC));
    if (!write_all(fd.get(), bytes)) throw std::runtime_error("filling a memfd");
    ::lseek(fd.get(), 0, SEEK_SET);
    return fd;
}

} // namespace berth::image
