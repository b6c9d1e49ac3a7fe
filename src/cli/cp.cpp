#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <iostream>

#include <CLI/CLI.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>

#include "base/blocking_pool.hpp"
#include "base/io.hpp"
#include "base/json.hpp"
#include "base/scope_exit.hpp"
#include "base/strings.hpp"
#include "cli/app.hpp"
#include "cli/copy_path.hpp"
#include "cli/copy_side.hpp"
#include "cli/exec_options.hpp"
#include "cli/host_copy.hpp"
#include "cli/progress.hpp"
#include "cli/session.hpp"
#include "cli/verbs.hpp"
#include "lifecycle/documents.hpp"

namespace berth::cli {

namespace {

using Kind = CopyPath::Kind;

constexpr std::size_t kPiece = std::size_t{256} << 10;

struct Options {
    Common common;
    std::string from;
    std::string to;
    std::string user;
    std::string links = "keep";
};

Result<ArchiveLimits> limits_of(const Options& o)
{
    auto limits = ArchiveLimits::whole_tree();
    if (o.links == "refuse")
        limits.links = ExternalLinks::Refuse;
    else if (o.links == "drop")
        limits.links = ExternalLinks::Drop;
    else if (o.links != "keep")
        return fail(Code::Invalid, "bad --links '{}': keep, refuse or drop", printable(o.links, 40));
    return limits;
}

/// One copy, from one side to the other.
class Copy {
public:
    Copy(Berth& berth, const Common& common, CopyPath from, CopyPath to, std::string user,
         ArchiveLimits limits)
        : held_(berth), common_(common), from_(std::move(from)), to_(std::move(to)), user_(std::move(user)),
          limits_(limits)
    {
    }

    Status run()
    {
        if (from_.kind == Kind::Sandbox) {
            BERTH_TRY(source_, open(from_));
        }
        if (to_.kind == Kind::Sandbox) {
            BERTH_TRY(target_, open(to_));
        }
        if (source_ && target_) return across();
        if (source_ && to_.kind == Kind::Host) return out();
        if (source_) return out_to_stream();
        return from_.kind == Kind::Host ? in() : in_from_stream();
    }

    [[nodiscard]] Progress& progress() { return progress_; }
    [[nodiscard]] const std::optional<SandboxSide>& source() const { return source_; }
    [[nodiscard]] const std::optional<SandboxSide>& target() const { return target_; }

private:
    Result<SandboxSide> open(const CopyPath& where)
    {
        BERTH_TRY(auto side, SandboxSide::open(held_, where, user_));
        if (!common_.json) say_unless_attached(side.acquired()); // else the summary tells it
        return side;
    }

    [[nodiscard]] ByteSource counted(ByteSource source)
    {
        return [this, source = std::move(source)]() -> Result<std::string> {
            BERTH_TRY(auto piece, source());
            progress_.add(piece.size());
            return piece;
        };
    }
    [[nodiscard]] ByteSink into(int fd)
    {
        return [this, fd](std::string_view bytes) -> Status {
            progress_.add(bytes.size());
            return write_all(fd, bytes);
        };
    }

    Result<UniqueFd> spool()
    {
        BERTH_TRY(auto file, make_spool(held_.berth().data()));
        BERTH_CHECK(source_->read(into(file.get())));
        BERTH_CHECK(rewind(file.get()));
        return file;
    }

    Status out()
    {
        BERTH_TRY(const auto file, spool());
        BERTH_TRY(const bool tree, holds_tree(file.get()));
        BERTH_TRY(const bool there, is_host_directory(to_.path));
        if (tree) return unpack_tree(file.get(), tree_target(to_.path, there, from_), limits_);
        BERTH_TRY(const auto target, file_target(to_.path, there, from_.name()));
        return unpack_file(file.get(), target, limits_);
    }

    Status out_to_stream()
    {
        BERTH_TRY(const bool tree, source_->is_directory());
        if (tree && ::isatty(STDOUT_FILENO) == 1)
            return fail(Code::Invalid,
                        "a directory comes as a tar, which is nothing for a terminal: add > FILE");
        if (tree) return source_->read(into(STDOUT_FILENO));
        BERTH_TRY(const auto file, spool());
        return pass_file(file.get(), limits_,
                         [](std::string_view bytes) { return write_all(STDOUT_FILENO, bytes); });
    }

    Status in()
    {
        BERTH_TRY(auto source, open_host(from_.path));
        progress_.expect(source.size);
        return in_from(std::move(source));
    }

    Status in_from(HostSource source)
    {
        BERTH_TRY(const bool there, target_->is_directory());
        if (source.directory) {
            const auto target = tree_target(target_->path(), there, from_);
            BERTH_TRY(auto bytes, host_archive(std::move(source.start), "."));
            return target_->write_tree(target, counted(std::move(bytes)), limits_);
        }
        BERTH_TRY(const auto target, file_target(target_->path(), there, from_.name()));
        BERTH_TRY(auto bytes, host_archive(std::move(source.start), target.name));
        return target_->write(target.directory, counted(std::move(bytes)), limits_);
    }

    Status in_from_stream()
    {
        BERTH_TRY(const bool there, target_->is_directory());
        const auto more = []() -> Result<std::string> {
            std::string piece(kPiece, '\0');
            ssize_t n = 0;
            do n = ::read(STDIN_FILENO, piece.data(), piece.size());
            while (n < 0 && errno == EINTR);
            if (n < 0) return fail_errno("reading stdin");
            piece.resize(static_cast<std::size_t>(n));
            return piece;
        };
        if (there) return target_->write(target_->path(), counted(more), limits_); // a tar
        BERTH_TRY(const auto target, file_target(target_->path(), false, {}));
        BERTH_TRY(const auto file, make_spool(held_.berth().data()));
        // On another thread: whoever writes may take long, and the sandbox is in use meanwhile.
        const auto spool = [&]() -> Status {
            for (;;) {
                BERTH_TRY(const auto piece, more());
                if (piece.empty()) return {};
                BERTH_CHECK(write_all(file.get(), piece));
            }
        };
        BlockingPool pool(1);
        BERTH_CHECK(held_.run(pool.call(spool)));
        if (::fchmod(file.get(), 0644) != 0) return fail_errno("preparing a temporary file");
        BERTH_TRY(auto source, open_host(fmt::format("/proc/self/fd/{}", file.get())));
        BERTH_TRY(auto bytes, host_archive(std::move(source.start), target.name));
        return target_->write(target.directory, counted(std::move(bytes)), limits_);
    }

    /// A tree streams through; a file may change its name on the way, and its size must be known first.
    Status across()
    {
        BERTH_TRY(const bool there, target_->is_directory());
        BERTH_TRY(const bool tree, source_->is_directory());
        if (tree) return across_tree(tree_target(target_->path(), there, from_));
        BERTH_TRY(const auto target, file_target(target_->path(), there, from_.name()));
        BERTH_TRY(auto file, spool());
        BERTH_TRY(auto bytes, renamed_archive(std::move(file), target.name, limits_));
        return target_->write(target.directory, std::move(bytes), limits_);
    }

    Status across_tree(const CopyTarget& target)
    {
        BERTH_CHECK(target_->make(target));
        int ends[2];
        if (::pipe2(&ends[0], O_CLOEXEC) != 0) return fail_errno("making a pipe");
        UniqueFd reading(ends[0]);
        UniqueFd writing(ends[1]);
        std::atomic<bool> whole = false; // set before the pipe is closed, read after its end
        const auto pull = [&]() -> Result<std::string> {
            std::string piece(kPiece, '\0');
            ssize_t n = 0;
            do n = ::read(reading.get(), piece.data(), piece.size());
            while (n < 0 && errno == EINTR);
            if (n < 0) return fail_errno("reading a pipe");
            piece.resize(static_cast<std::size_t>(n));
            if (piece.empty() && !whole) return fail(Code::Unavailable, "the other side ended early");
            return piece;
        };
        const auto read = [&]() -> Task<Status> {
            ScopeExit close([&] { writing.reset(); });
            auto done = co_await source_->read_task(into(writing.get()));
            whole = done.has_value();
            co_return done;
        };
        const auto write = [&]() -> Task<Status> {
            ScopeExit close([&] { reading.reset(); });
            co_return co_await target_->write_task(target.directory, pull, limits_);
        };
        const auto both = [&]() -> Task<std::pair<Status, Status>> {
            using namespace boost::asio::experimental::awaitable_operators;
            auto [first, second] = co_await (read() && write());
            co_return std::pair(std::move(first), std::move(second));
        };
        const auto [from, to] = held_.run(both());
        // Whoever failed first has made the other fail, by a broken pipe or an early end.
        const bool by_target = !to && (from.has_value() || from.error().sys.value() == EPIPE);
        return by_target ? target_->named(to, "writing") : source_->named(from, "reading");
    }

    Held held_;
    const Common& common_;
    CopyPath from_, to_;
    std::string user_;
    ArchiveLimits limits_;
    std::optional<SandboxSide> source_, target_;
    Progress progress_;
};

/// How the sandbox of a side was come by; null where it is none.
json::Value side_json(const std::optional<SandboxSide>& side)
{
    if (!side) return nullptr;
    auto out = documents::outcome(side->acquired());
    out["sandbox"] = side->acquired().record.id();
    return out;
}

Status run(const Options& o)
{
    BERTH_TRY(auto from, parse_copy_path(o.from));
    BERTH_TRY(auto to, parse_copy_path(o.to));
    BERTH_TRY(const auto limits, limits_of(o));
    if (from.kind != Kind::Sandbox && to.kind != Kind::Sandbox)
        return fail(Code::Invalid, "one side must be in a sandbox, written like SANDBOX:/path");
    BERTH_TRY(const auto berth, open_berth(o.common));
    const bool streams = to.kind == Kind::Stream;
    Copy copy(*berth, o.common, std::move(from), std::move(to), o.user, limits);
    BERTH_CHECK(copy.run());
    if (!o.common.json) return {};
    const json::Object summary{{"from", o.from},
                               {"to", o.to},
                               {"source", side_json(copy.source())},
                               {"target", side_json(copy.target())},
                               {"stream_bytes", copy.progress().bytes()},
                               {"elapsed_ns", copy.progress().elapsed().count()}};
    (streams ? std::cerr : std::cout) << json::dump(summary) << std::endl;
    return {};
}

} // namespace

int cp_verb(int argc, char** argv)
{
    CLI::App app(
        "Copy files and directories into a sandbox, out of one, or from one to another. `-` is stdin or\n"
        "stdout: the bytes of a file, or a tar where the other side is a directory. A directory that\n"
        "is the target's is copied into; DIR/. stands for what is in DIR. Links are copied, not followed.\n\n"
        "Example:\n"
        "  berth cp mybox:/home/user/report.txt .\n",
        "berth cp");
    Options options;
    app.add_option("source", options.from, "SANDBOX:path, a path here, or -")->type_name("SRC")->required();
    app.add_option("target", options.to, "SANDBOX:path, a path here, or -")->type_name("DST")->required();
    app.add_option("-u,--user", options.user, "As whom files inside are read and written")->type_name("USER");
    app.add_option("--links", options.links,
                   "Links that lead out of the tree: keep (default), refuse or drop")
        ->type_name("WHAT");
    add_common(app, options.common);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, options.common, argc, argv)) return *done;
    const auto copied = run(options);
    return copied ? 0 : report(copied.error(), options.common);
}

} // namespace berth::cli
