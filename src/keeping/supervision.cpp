#include "keeping/supervision.hpp"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "base/io.hpp"
#include "base/sealed_program.hpp"
#include "supervisor/wire.hpp"
#include "sys/caps.hpp"
#include "sys/socket.hpp"

// The build puts the static program here (src/supervisor/CMakeLists.txt).
asm(".pushsection .rodata\n"
    ".balign 16\n"
    ".globl berth_supervisor_image_begin\n.hidden berth_supervisor_image_begin\n"
    "berth_supervisor_image_begin:\n"
    ".incbin \"" BERTH_SUPERVISOR_IMAGE "\"\n"
    ".globl berth_supervisor_image_end\n.hidden berth_supervisor_image_end\n"
    "berth_supervisor_image_end:\n"
    ".popsection\n");
extern "C" const char berth_supervisor_image_begin[], berth_supervisor_image_end[];

namespace berth::keeping {

namespace {

Result<UniqueFd> make_image(mode_t mode)
{
    const auto size = static_cast<std::size_t>(berth_supervisor_image_end - berth_supervisor_image_begin);
    return seal_program("berth-supervisor", {berth_supervisor_image_begin, size}, mode);
}

Result<UniqueFd> copy_of(const Result<UniqueFd>& image)
{
    if (!image) return std::unexpected(image.error());
    UniqueFd copy(::fcntl(image->get(), F_DUPFD_CLOEXEC, 3));
    if (!copy) return fail_errno("keeping the supervisor's program");
    return copy;
}

// One of each process: the pages are shared by all supervisors.

/// Who may run it but not read it cannot be looked into.
Result<UniqueFd> supervising_image()
{
    static const Result<UniqueFd> made = make_image(0111);
    return copy_of(made);
}

/// The supervisor must look into this one.
Result<UniqueFd> first_image()
{
    static const Result<UniqueFd> made = make_image(0555);
    return copy_of(made);
}

} // namespace

Result<std::optional<Supervision>> Supervision::make(const policy::BoundFiles& files,
                                                     std::span<const std::string> programs)
{
    supervisor::Config config;
    std::string texts;
    for (const auto& rule : files.rules) {
        if (rule.pattern.empty()) continue;
        if (rule.access != policy::Access::Deny)
            return fail(Code::Unsupported, "file rule {}: only what is denied can be named by a pattern here",
                        rule.source);
        ++config.patterns;
        texts += rule.pattern;
        texts += '\0';
    }
    if (config.patterns == 0) return std::optional<Supervision>{};
    for (const auto& program : programs) {
        ++config.programs;
        texts += program;
        texts += '\0';
    }
    config.one_command = programs.empty() ? 0 : 1;
    if (texts.size() > supervisor::kMaxBytes) return fail(Code::Exhausted, "too many deny patterns");
    config.bytes = static_cast<std::uint32_t>(texts.size());
    Supervision made;
    made.config_.reset(::memfd_create("berth-patterns", MFD_CLOEXEC));
    if (!made.config_) return fail_errno("making a memory file for deny patterns");
    std::string bytes(sizeof config, '\0');
    std::memcpy(bytes.data(), &config, sizeof config);
    BERTH_CHECK(write_all(made.config_.get(), bytes + texts));
    BERTH_TRY(made.image_, supervising_image());
    if (!programs.empty()) {
        BERTH_TRY(made.first_, first_image());
    }
    BERTH_TRY(auto talk, sys::socket_pair(sys::SocketKind::SeqPacket));
    made.theirs_ = std::move(talk.first);
    made.ours_ = std::move(talk.second);
    return std::optional<Supervision>(std::move(made));
}

Status Supervision::only(const Account& user)
{
    supervisor::Config config;
    if (::pread(config_.get(), &config, sizeof config, 0) != static_cast<ssize_t>(sizeof config))
        return fail_errno("reading the config of the supervisor");
    config.one_user = 1;
    config.uid = user.uid;
    config.gid = user.gid;
    if (::pwrite(config_.get(), &config, sizeof config, 0) != static_cast<ssize_t>(sizeof config))
        return fail_errno("writing the config of the supervisor");
    return {};
}

void Supervision::add_process(sys::StepList& list, std::uint32_t block) const
{
    list.clone(0, block, SIGCHLD);
}

void Supervision::add_filter(sys::StepList& list, const sys::FilterOptions& options) const
{
    const auto listener = list.seccomp_listener(sys::seccomp_filter(options));
    list.send(list.borrow(ours_.get()), "l", ~0ull, {listener});
    list.close(listener);
}

void Supervision::add_command(sys::StepList& list, const std::vector<std::string>& programs,
                              const std::vector<std::string>& argv, const std::vector<std::string>& env) const
{
    std::vector<std::string> words{"berth-supervisor", fmt::format("{}", programs.size())};
    words.insert(words.end(), programs.begin(), programs.end());
    words.insert(words.end(), argv.begin(), argv.end());
    list.exec(list.borrow(first_.get()), words, env);
}

void Supervision::add_block(sys::StepList& list, std::uint64_t caps, bool ordinary_user) const
{
    [[maybe_unused]] const auto block = list.begin_block();
    list.say("starting the supervisor of deny patterns");
    list.new_session(); // no terminal of ours has anything to tell it
    const std::uint64_t kept = caps | sys::cap_bit(CAP_SYS_PTRACE);
    list.drop_caps(kept, kept, ordinary_user ? kept : 0);
    list.dup(list.borrow(theirs_.get()), supervisor::kSocket);
    list.dup(list.borrow(config_.get()), supervisor::kConfig);
    list.close_on_exec_from(2);
    list.exec(list.borrow(image_.get()), {"berth-supervisor"}, {});
}

void Supervision::let_go()
{
    image_.reset();
    first_.reset();
    theirs_.reset();
    ours_.reset();
}

std::uint64_t Supervision::refused() const
{
    supervisor::Config config;
    if (::pread(config_.get(), &config, sizeof config, 0) != static_cast<ssize_t>(sizeof config)) return 0;
    return config.refused;
}

} // namespace berth::keeping
