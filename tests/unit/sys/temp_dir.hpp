#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stdexcept>
#include <string>

#include "base/unique_fd.hpp"
#include "sys/remove_tree.hpp"

namespace berth::sys {

/// A directory of a test's own, gone when the test ends.
class TempDir {
public:
    TempDir() : TempDir(::getenv("TMPDIR") ? ::getenv("TMPDIR") : "/tmp") {}
    explicit TempDir(const std::string& base) : path_(base + "/berth-test-XXXXXX")
    {
        if (!::mkdtemp(path_.data())) throw std::runtime_error("mkdtemp " + path_);
        fd_ = UniqueFd(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    }
    TempDir(const TempDir&) = delete;
    TempDir& operator=(const TempDir&) = delete;
    ~TempDir()
    {
        const auto slash = path_.rfind('/');
        const UniqueFd above(::open(path_.substr(0, slash).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
        static_cast<void>(remove_tree(above.get(), path_.substr(slash + 1)));
    }

    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }
    [[nodiscard]] int fd() const { return fd_.get(); }

    void write(const std::string& name, const std::string& bytes, unsigned mode = 0644) const
    {
        const UniqueFd file(::open((*this / name).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode));
        if (!file || ::write(file.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
            throw std::runtime_error("writing " + name);
    }
    void make_dir(const std::string& name, unsigned mode = 0755) const
    {
        if (::mkdir((*this / name).c_str(), mode) != 0) throw std::runtime_error("mkdir " + name);
    }
    void link(const std::string& target, const std::string& name) const
    {
        if (::symlink(target.c_str(), (*this / name).c_str()) != 0)
            throw std::runtime_error("symlink " + name);
    }
    [[nodiscard]] bool has(const std::string& name) const
    {
        struct stat st{};
        return ::lstat((*this / name).c_str(), &st) == 0;
    }

private:
    std::string path_;
    UniqueFd fd_;
};

} // namespace berth::sys
