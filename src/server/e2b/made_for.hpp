#pragma once

#include "server/e2b/envd.hpp"

namespace berth::e2b {

/// A directory with its parents, and a file from `contents`, with the rights of `who`, which are the user's
/// or root's; what is made belongs to the user where the backend can give it to him.
Task<Status> make_dir_for(const EnvdCall& call, const User& user, std::string who, std::string path);
Task<Status> fill_file_for(const EnvdCall& call, const User& user, std::string who, std::string path,
                           FileContents contents);

} // namespace berth::e2b
