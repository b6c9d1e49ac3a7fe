#pragma once

#include "core/file_attributes.hpp"
#include "server/e2b/envd.hpp"

namespace berth::e2b {

/// What clients keep with files: attributes "user.e2b.KEY".
using FileMetadata = FileAttributes::Set;

/// What a request's headers X-Metadata-KEY say.
[[nodiscard]] Result<FileMetadata> metadata_of(const http::RequestHead& head);

/// Of those names in a directory that have some. A backend without them has none.
Task<std::map<std::string, FileMetadata>> metadata_in(const EnvdCall& call, std::string directory,
                                                      std::vector<std::string> names, std::string user);

/// The file's from now on; what it had before is gone. False: they cannot be kept where it lies.
Task<Result<bool>> put_metadata(EnvdCall& call, const User& user, std::string path, FileMetadata metadata);

} // namespace berth::e2b
