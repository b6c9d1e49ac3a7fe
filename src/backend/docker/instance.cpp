#include "backend/docker/instance.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.hpp"
#include "base/json_reader.hpp"
#include "core/spec_json.hpp"
#include "keeping/keeper_image.hpp"
#include "keeping/labels_json.hpp"
#include "keeping/lock.hpp"
#include "keeping/native.hpp"
#include "sys/remove_tree.hpp"

namespace berth::docker {

namespace {

constexpr const char* kRecord = "instance";
constexpr std::int64_t kMany = std::int64_t{1} << 62;
constexpr int kTries = 5;

bool same_place(int directory, int named)
{
    struct stat a{}, b{};
    return ::fstat(directory, &a) == 0 && ::fstat(named, &b) == 0 && a.st_ino == b.st_ino &&
           a.st_dev == b.st_dev;
}

Status copy_keeper(int directory)
{
    BERTH_TRY(const int image, keeping::keeper_image());
    struct stat st{};
    if (::fstat(image, &st) != 0) return fail_errno("looking at the keeper");
    std::string bytes(static_cast<std::size_t>(st.st_size), '\0');
    if (::pread(image, bytes.data(), bytes.size(), 0) != st.st_size) return fail_errno("reading the keeper");
    const UniqueFd file(
        ::openat(directory, "keeper", O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0555));
    if (!file) return fail_errno("copying the keeper");
    return write_all(file.get(), bytes);
}

} // namespace

std::string boot_id()
{
    std::string id = read_file("/proc/sys/kernel/random/boot_id").value_or("");
    while (!id.empty() && id.back() == '\n') id.pop_back();
    return id;
}

Result<InstanceDirs> InstanceDirs::open(const std::string& state_path)
{
    std::string path = state_path + "/docker";
    BERTH_CHECK(make_dirs(path, 0700));
    UniqueFd all(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!all) return fail_errno("opening {}", path);
    return InstanceDirs(std::move(path), std::move(all));
}

Result<std::vector<std::string>> InstanceDirs::names() const
{
    const UniqueFd again(::openat(all_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!again) return fail_errno("opening {}", path_);
    BERTH_TRY(auto all, list_names(again.get()));
    std::erase_if(all, [](const auto& name) { return !keeping::is_native(name); });
    return all;
}

Result<UniqueFd> InstanceDirs::open(const std::string& native, int flags) const
{
    BERTH_CHECK(keeping::check_native(native));
    UniqueFd directory(
        ::openat(all_.get(), native.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW | flags));
    if (!directory && errno == ENOENT) return fail(Code::NotFound, "no sandbox {}", native);
    if (!directory) return fail_errno("opening sandbox {}", native);
    return directory;
}

Result<UniqueFd> InstanceDirs::lock(const std::string& native) const
{
    BERTH_TRY(auto directory, open(native, 0));
    if (!keeping::lock_within(directory.get(), keeping::Use::Alone, std::chrono::seconds(60)))
        return fail(Code::Unavailable,
                    "sandbox {} is being made, started, stopped or removed by somebody else", native);
    BERTH_TRY(const auto named, open(native, 0));
    if (!same_place(directory.get(), named.get())) return fail(Code::NotFound, "no sandbox {}", native);
    return directory;
}

Result<UniqueFd> InstanceDirs::make(const std::string& native) const
{
    BERTH_CHECK(keeping::check_native(native));
    for (int tries = 0;; ++tries) {
        if (::mkdirat(all_.get(), native.c_str(), 0700) != 0 && errno != EEXIST)
            return fail_errno("creating sandbox {}", native);
        auto directory = lock(native);
        if (directory || directory.error().code != Code::NotFound || tries >= kTries) return directory;
    }
}

Status InstanceDirs::furnish(int directory) const
{
    for (const char* name : {"in", "exec", kRecord, "paused"}) BERTH_CHECK(sys::remove_tree(directory, name));
    // Root of the container, whoever that is outside, must reach the keeper; nobody else is let in here.
    if (::mkdirat(directory, "in", 0755) != 0 || ::mkdirat(directory, "exec", 0700) != 0)
        return fail_errno("furnishing a sandbox");
    const UniqueFd in(::openat(directory, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!in) return fail_errno("furnishing a sandbox");
    return copy_keeper(in.get());
}

Status InstanceDirs::remove(const std::string& native) const
{
    BERTH_CHECK(keeping::check_native(native));
    return sys::remove_tree(all_.get(), native);
}

Status write_instance(int directory, const Instance& instance)
{
    json::Object out;
    out["spec"] = to_json(instance.spec);
    out["labels"] = keeping::to_json(instance.labels);
    if (!instance.pins.empty()) out["pins"] = keeping::to_json(instance.pins);
    out["container"] = instance.container;
    out["image"] = instance.image;
    out["defaults"] = to_json(instance.defaults);
    out["pid"] = instance.pid;
    out["start"] = instance.start_time;
    out["boot"] = instance.boot;
    out["engine"] = instance.engine;
    out["finished"] = instance.finished;
    if (!instance.inside.empty()) out["inside"] = instance.inside;
    out["owned"] = instance.owned;
    if (!instance.former.empty()) out["former"] = instance.former;
    return replace_file_at(directory, kRecord, json::dump(out));
}

Result<Instance> read_instance(int directory)
{
    BERTH_TRY(const auto text, read_file_at(directory, kRecord, 16_MiB));
    BERTH_TRY(const auto document, json::parse(text, {.bytes = 16u << 20}));
    const json::Reader at(document);
    Instance out;
    const auto read_text = [](const json::Reader& from, std::string_view name, std::string& into) -> Status {
        BERTH_TRY(const auto member, from.at(name));
        BERTH_TRY(into, member.string());
        return {};
    };
    BERTH_TRY(const auto spec, at.at("spec"));
    BERTH_TRY(out.spec, read_spec(spec));
    BERTH_TRY(const auto labels, at.at("labels"));
    BERTH_TRY(out.labels, keeping::read_labels(labels));
    BERTH_CHECK(read_text(at, "container", out.container));
    BERTH_CHECK(read_text(at, "image", out.image));
    BERTH_CHECK(read_text(at, "boot", out.boot));
    BERTH_TRY(out.pins, keeping::read_pins(at, out.spec, out.boot == boot_id()));
    BERTH_TRY(const auto defaults, at.at("defaults"));
    BERTH_CHECK(read_text(defaults, "workdir", out.defaults.workdir));
    BERTH_CHECK(read_text(defaults, "user", out.defaults.user));
    BERTH_TRY(const auto env, defaults.at("env"));
    BERTH_TRY(const auto members, env.members());
    for (const auto& [name, value] : members) {
        BERTH_TRY(out.defaults.env[name], value.string());
    }
    BERTH_CHECK(read_text(at, "engine", out.engine));
    BERTH_TRY(const auto finished, at.at("finished"));
    BERTH_TRY(out.finished, finished.boolean());
    BERTH_TRY(const auto inside, at.find("inside"));
    if (inside) {
        BERTH_TRY(out.inside, inside->string());
    }
    out.owned = out.inside.empty(); // before containers could be adopted
    BERTH_TRY(const auto owned, at.find("owned"));
    if (owned) {
        BERTH_TRY(out.owned, owned->boolean());
    }
    BERTH_TRY(const auto former, at.find("former"));
    if (former) {
        BERTH_TRY(out.former, former->string());
    }
    BERTH_TRY(const auto pid_at, at.at("pid"));
    BERTH_TRY(const auto pid, pid_at.integer(0, 1 << 30));
    out.pid = static_cast<int>(pid);
    BERTH_TRY(const auto start_at, at.at("start"));
    BERTH_TRY(const auto start, start_at.integer(0, kMany));
    out.start_time = static_cast<std::uint64_t>(start);
    return out;
}

} // namespace berth::docker
