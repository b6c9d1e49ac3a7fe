#include "sys/step_list.hpp"

#include <cstring>

namespace berth::sys {

StepList::StepList() : block_starts_{0}
{
    arena_.assign(8, '\0'); // offset 0 means "none"
    say("starting");
}

Slot StepList::borrow(int fd)
{
    slots_.push_back(fd);
    return {static_cast<std::int32_t>(slots_.size() - 1)};
}

Slot StepList::own(UniqueFd fd)
{
    const Slot slot = borrow(fd.get());
    owned_.push_back(std::move(fd));
    return slot;
}

Slot StepList::empty() { return borrow(-1); }

std::uint32_t StepList::begin_block()
{
    block_starts_.push_back(static_cast<std::uint32_t>(steps_.size()));
    return static_cast<std::uint32_t>(block_starts_.size() - 1);
}

StepList& StepList::say(std::string_view what)
{
    label_ = put(what);
    return *this;
}

std::uint32_t StepList::put(std::string_view text)
{
    const auto at = static_cast<std::uint32_t>(arena_.size());
    arena_.append(text);
    // NUL-ended and padded: a filter program and a list of slots must be aligned.
    arena_.append(8 - arena_.size() % 8, '\0');
    return at;
}

std::uint32_t StepList::put_vector(const std::vector<std::string>& words)
{
    std::vector<std::uint32_t> offsets;
    offsets.reserve(words.size());
    for (const auto& word : words) offsets.push_back(put(word));
    vectors_.push_back(std::move(offsets));
    return static_cast<std::uint32_t>(vectors_.size() - 1);
}

Step& StepList::add(Op op)
{
    steps_.emplace_back();
    steps_.back().op = op;
    steps_.back().label = label_;
    return steps_.back();
}

std::vector<Block> StepList::blocks() const
{
    std::vector<Block> out;
    for (std::size_t i = 0; i < block_starts_.size(); ++i) {
        const std::uint32_t end =
            i + 1 < block_starts_.size() ? block_starts_[i + 1] : static_cast<std::uint32_t>(steps_.size());
        out.push_back({.first = block_starts_[i], .count = end - block_starts_[i]});
    }
    return out;
}

std::string_view StepList::label_of(std::size_t step) const
{
    return step < steps_.size() ? std::string_view(arena_.c_str() + steps_[step].label) : "starting";
}

std::vector<std::string> StepList::labels() const
{
    std::vector<std::string> out;
    for (std::size_t i = 0; i < steps_.size(); ++i)
        if (out.empty() || out.back() != label_of(i)) out.emplace_back(label_of(i));
    return out;
}

void StepList::write_fd(Slot fd, std::string_view bytes)
{
    const auto at = put(bytes);
    Step& s = add(Op::WriteFd);
    s.fd = fd.index;
    s.text[0] = at;
    s.size = bytes.size();
}

void StepList::write_file(std::string_view path, std::string_view bytes, int tolerate)
{
    const auto p = put(path);
    const auto b = put(bytes);
    Step& s = add(Op::WriteFile);
    s.text[0] = p;
    s.text[1] = b;
    s.size = bytes.size();
    s.tolerate = tolerate;
}

void StepList::set_namespace(Slot fd, std::uint64_t type)
{
    Step& s = add(Op::SetNamespace);
    s.fd = fd.index;
    s.a = type;
}

void StepList::enter_beside(Slot maker, Slot ready)
{
    Step& s = add(Op::EnterBeside);
    s.fd = maker.index;
    s.fd2 = ready.index;
}

void StepList::make_private() { add(Op::MakePrivate); }

void StepList::mount(const char* source, std::string_view target, const char* type, std::uint64_t flags,
                     std::string_view data, int tolerate)
{
    const auto src = source == nullptr ? 0 : put(source);
    const auto dst = put(target);
    const auto kind = type == nullptr ? 0 : put(type);
    const auto options = data.empty() ? 0 : put(data);
    Step& s = add(Op::Mount);
    s.text[0] = src;
    s.text[1] = dst;
    s.text[2] = kind;
    s.text[3] = options;
    s.a = flags;
    s.tolerate = tolerate;
}

Slot StepList::fs_open(std::string_view type)
{
    const auto at = put(type);
    const Slot out = empty();
    Step& s = add(Op::FsOpen);
    s.text[0] = at;
    s.out = out.index;
    return out;
}

void StepList::fs_string(Slot fs, std::string_view key, std::string_view value)
{
    const auto k = put(key);
    const auto v = put(value);
    Step& s = add(Op::FsString);
    s.fd = fs.index;
    s.text[0] = k;
    s.text[1] = v;
}

void StepList::fs_flag(Slot fs, std::string_view key)
{
    const auto k = put(key);
    Step& s = add(Op::FsFlag);
    s.fd = fs.index;
    s.text[0] = k;
}

Slot StepList::fs_mount(Slot fs, std::uint64_t attributes)
{
    const Slot out = empty();
    Step& s = add(Op::FsMount);
    s.fd = fs.index;
    s.a = attributes;
    s.out = out.index;
    return out;
}

Slot StepList::open_tree(std::string_view path, std::uint64_t flags, int tolerate)
{
    const auto at = put(path);
    const Slot out = empty();
    Step& s = add(Op::OpenTree);
    s.text[0] = at;
    s.a = flags;
    s.out = out.index;
    s.tolerate = tolerate;
    return out;
}

Slot StepList::open_tree(Slot object, std::uint64_t flags, int tolerate)
{
    const Slot out = empty();
    Step& s = add(Op::OpenTree);
    s.fd = object.index;
    s.a = flags;
    s.out = out.index;
    s.tolerate = tolerate;
    return out;
}

void StepList::mount_attr(Slot tree, std::uint64_t set, Slot user_namespace, std::uint64_t flags,
                          int tolerate)
{
    Step& s = add(Op::MountAttr);
    s.tolerate = tolerate;
    s.fd = tree.index;
    s.fd2 = user_namespace.index;
    s.a = set;
    s.c = flags;
}

void StepList::mount_attr(std::string_view path, std::uint64_t set, std::uint64_t clear, std::uint64_t flags,
                          int tolerate)
{
    const auto at = put(path);
    Step& s = add(Op::MountAttrPath);
    s.tolerate = tolerate;
    s.text[0] = at;
    s.a = set;
    s.b = clear;
    s.c = flags;
}

void StepList::move_mount(Slot tree, std::string_view target)
{
    const auto at = put(target);
    Step& s = add(Op::MoveMount);
    s.fd = tree.index;
    s.text[0] = at;
}

void StepList::move_mount(Slot tree, Slot target, int tolerate)
{
    Step& s = add(Op::MoveMount);
    s.tolerate = tolerate;
    s.fd = tree.index;
    s.fd2 = target.index;
}

Slot StepList::open_beneath(Slot dir, std::string_view path, std::uint64_t flags, std::uint64_t resolve,
                            int tolerate)
{
    const auto at = put(path);
    const Slot out = empty();
    Step& s = add(Op::OpenBeneath);
    s.fd = dir.index;
    s.text[0] = at;
    s.a = flags;
    s.b = resolve;
    s.out = out.index;
    s.tolerate = tolerate;
    return out;
}

Slot StepList::cover_tree(std::string_view path, std::string_view place, Leaf kind)
{
    const auto from = put(path);
    const auto at = put(place);
    const Slot out = empty();
    Step& s = add(Op::CoverTree);
    s.text[0] = from;
    s.text[1] = at;
    s.a = kind == Leaf::Directory ? 1 : 0;
    s.out = out.index;
    s.tolerate = kMissing;
    return out;
}

void StepList::cover(std::string_view place, Slot directory, Slot file)
{
    const auto at = put(place);
    Step& s = add(Op::Cover);
    s.text[0] = at;
    s.fd = directory.index;
    s.fd2 = file.index;
}

Slot StepList::make_dirs_beneath(Slot dir, std::string_view path, unsigned mode, int tolerate)
{
    const auto at = put(path);
    const Slot out = empty();
    Step& s = add(Op::MakeBeneath);
    s.fd = dir.index;
    s.text[0] = at;
    s.a = mode;
    s.out = out.index;
    s.tolerate = tolerate;
    return out;
}

Slot StepList::make_file_beneath(Slot dir, std::string_view path)
{
    const Slot out = make_dirs_beneath(dir, path, 0755);
    steps_.back().b = static_cast<std::uint64_t>(Leaf::File);
    return out;
}

Slot StepList::make_like_beneath(Slot dir, std::string_view path, Slot like, int tolerate)
{
    const Slot out = make_dirs_beneath(dir, path, 0755);
    steps_.back().b = static_cast<std::uint64_t>(Leaf::SameAs);
    steps_.back().fd2 = like.index;
    steps_.back().tolerate = tolerate;
    return out;
}

void StepList::close(Slot fd, int tolerate)
{
    Step& s = add(Op::Close);
    s.fd = fd.index;
    s.tolerate = tolerate;
}

void StepList::chdir(Slot dir) { add(Op::Chdir).fd = dir.index; }

void StepList::unmount(std::string_view path)
{
    const auto at = put(path);
    add(Op::Unmount).text[0] = at;
}

void StepList::chdir(std::string_view path)
{
    const auto at = put(path);
    add(Op::Chdir).text[0] = at;
}

void StepList::pivot_root() { add(Op::PivotRoot); }

void StepList::hostname(std::string_view name)
{
    const auto at = put(name);
    Step& s = add(Op::Hostname);
    s.text[0] = at;
    s.size = name.size();
}

void StepList::loopback_up() { add(Op::LoopbackUp); }

void StepList::rlimit(int resource, std::uint64_t value)
{
    Step& s = add(Op::Rlimit);
    s.a = static_cast<std::uint64_t>(resource);
    s.b = value;
}

void StepList::soft_limit(int resource, std::uint64_t value)
{
    rlimit(resource, value);
    steps_.back().c = 1;
}

void StepList::umask(unsigned mask) { add(Op::Umask).a = mask; }
void StepList::new_session() { add(Op::NewSession); }

void StepList::fs_ids(std::uint32_t uid, std::uint32_t gid)
{
    Step& s = add(Op::FsIds);
    s.a = uid;
    s.b = gid;
}

void StepList::ids(std::uint32_t uid, std::uint32_t gid, bool clear_groups)
{
    Step& s = add(Op::Ids);
    s.a = uid;
    s.b = gid;
    s.c = clear_groups ? 1 : 0;
}

void StepList::drop_caps(std::uint64_t keep_bounding, std::uint64_t keep_permitted,
                         std::uint64_t keep_ambient)
{
    Step& s = add(Op::DropCaps);
    s.a = keep_bounding;
    s.b = keep_permitted;
    s.c = keep_ambient;
}

void StepList::death_signal(int signo, Slot parent_pidfd)
{
    Step& s = add(Op::DeathSignal);
    s.a = static_cast<std::uint64_t>(signo);
    s.fd = parent_pidfd.index;
}

void StepList::no_new_privs() { add(Op::NoNewPrivs); }

Slot StepList::landlock_create(std::uint64_t fs, std::uint64_t net, std::uint64_t scopes)
{
    const Slot out = empty();
    Step& s = add(Op::LandlockCreate);
    s.a = fs;
    s.b = net;
    s.c = scopes;
    s.out = out.index;
    return out;
}

void StepList::landlock_path(Slot ruleset, std::string_view path, std::uint64_t access, int tolerate)
{
    const auto at = put(path);
    Step& s = add(Op::LandlockPath);
    s.fd = ruleset.index;
    s.text[0] = at;
    s.a = access;
    s.tolerate = tolerate;
}

void StepList::landlock_apply(Slot ruleset) { add(Op::LandlockApply).fd = ruleset.index; }

void StepList::seccomp(std::string_view program)
{
    const auto at = put(program);
    Step& s = add(Op::Seccomp);
    s.text[0] = at;
    s.size = program.size();
}

Slot StepList::seccomp_listener(std::string_view program)
{
    const auto out = empty();
    seccomp(program);
    steps_.back().out = out.index;
    return out;
}

void StepList::mkdir(std::string_view path, unsigned mode, int tolerate)
{
    const auto at = put(path);
    Step& s = add(Op::Mkdir);
    s.text[0] = at;
    s.a = mode;
    s.b = ~0ull;
    s.tolerate = tolerate;
}

void StepList::mkdir_owned(std::string_view path, unsigned mode, std::uint64_t uid, std::uint64_t gid)
{
    mkdir(path, mode);
    steps_.back().b = uid;
    steps_.back().c = gid;
}

void StepList::make_file(std::string_view path, std::string_view bytes, unsigned mode, std::uint64_t uid,
                         std::uint64_t gid)
{
    const auto p = put(path);
    const auto b = put(bytes);
    Step& s = add(Op::MakeFile);
    s.text[0] = p;
    s.text[1] = b;
    s.size = bytes.size();
    s.a = mode;
    s.b = uid;
    s.c = gid;
}

void StepList::symlink(std::string_view to, std::string_view at)
{
    const auto t = put(to);
    const auto a = put(at);
    Step& s = add(Op::Symlink);
    s.text[0] = t;
    s.text[1] = a;
}

void StepList::make_node(std::string_view path, unsigned mode, std::uint64_t device)
{
    const auto at = put(path);
    Step& s = add(Op::MakeNode);
    s.text[0] = at;
    s.a = mode;
    s.b = device;
}

void StepList::check_writable(std::string_view path)
{
    const auto at = put(path);
    add(Op::CheckWritable).text[0] = at;
}

void StepList::dup(Slot fd, int number)
{
    Step& s = add(Op::Dup);
    s.fd = fd.index;
    s.a = static_cast<std::uint64_t>(number);
}

void StepList::close_on_exec_from(int number) { add(Op::CloseOnExec).a = static_cast<std::uint64_t>(number); }

void StepList::send(Slot socket, std::string_view bytes, std::uint64_t pid_offset,
                    const std::vector<Slot>& fds)
{
    const auto at = put(bytes);
    std::string list(fds.size() * sizeof(std::int32_t), '\0');
    for (std::size_t i = 0; i < fds.size(); ++i)
        std::memcpy(list.data() + i * sizeof(std::int32_t), &fds[i].index, sizeof(std::int32_t));
    const auto slots = put(list);
    Step& s = add(Op::Send);
    s.fd = socket.index;
    s.text[0] = at;
    s.text[1] = slots;
    s.size = bytes.size();
    s.a = pid_offset;
    s.b = fds.size();
}

void StepList::clone(std::uint64_t flags, std::uint32_t block, int exit_signal)
{
    Step& s = add(Op::Clone);
    s.a = flags;
    s.b = block;
    s.c = static_cast<std::uint64_t>(exit_signal);
}

void StepList::wait_child() { add(Op::WaitChild); }
void StepList::clear_signals() { add(Op::ClearSignals); }
void StepList::control_terminal(Slot terminal) { add(Op::ControlTerminal).fd = terminal.index; }

void StepList::ask(Slot socket) { add(Op::Ask).fd = socket.index; }

void StepList::exec(Slot program, const std::vector<std::string>& argv, const std::vector<std::string>& env)
{
    const auto arguments = put_vector(argv);
    const auto environment = put_vector(env);
    Step& s = add(Op::Exec);
    s.fd = program.index;
    s.a = arguments;
    s.b = environment;
}

void StepList::exec_path(const std::vector<std::string>& candidates, const std::vector<std::string>& argv,
                         const std::vector<std::string>& env)
{
    const auto paths = put_vector(candidates);
    const auto arguments = put_vector(argv);
    const auto environment = put_vector(env);
    Step& s = add(Op::ExecPath);
    s.a = arguments;
    s.b = environment;
    s.c = paths;
}

} // namespace berth::sys
