#pragma once

#include <string>

#include "base/io.hpp"
#include "unit/image/tar_builder.hpp"

namespace berth::local {

/// A static shell; empty when this machine has none.
inline std::string busybox()
{
    for (const char* path : {"/usr/bin/busybox", "/bin/busybox"}) {
        auto program = read_file(path, 16_MiB);
        if (program && program->find("/lib64/ld-linux") == std::string::npos) return *std::move(program);
    }
    return {};
}

/// The beginning of a root file system in which a shell runs.
inline image::RawTar with_shell(const std::string& program)
{
    image::RawTar tar;
    tar.file("bin/busybox", program, 0755);
    for (const char* name : {"sh", "cat", "id", "ls", "pwd", "env", "rm", "stat"})
        tar.symlink(std::string("bin/") + name, "busybox");
    return tar;
}

} // namespace berth::local
