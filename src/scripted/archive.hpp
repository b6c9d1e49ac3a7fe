#pragma once

#include "core/archive.hpp"
#include "scripted/files.hpp"

namespace berth::scripted {

/// A tree of the sandbox as a tar, made by the tar inside, to `sink`.
[[nodiscard]] Status read_tree(Files& files, const FilePath& directory, const ArchiveOptions& options,
                               const ByteSink& sink);

/// Unpacks below a directory that exists, by the tar inside, with the rights of its user. What comes to it is
/// an archive of ours: the caller's was judged here, by the rules that hold for every backend, and rewritten.
/// `spool` is a directory of this machine for what is read twice.
[[nodiscard]] Status write_tree(Files& files, int spool, const FilePath& directory, const ByteSource& source,
                                const ArchiveLimits& limits);

} // namespace berth::scripted
