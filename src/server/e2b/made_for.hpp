#pragma once

#include <string>
#include <vector>

#include "server/e2b/envd.hpp"

namespace berth::e2b {

/// A directory with its parents, and a file from `contents`, with the rights of `who`, which are the user's
/// or root's; what is made belongs to the user where the backend can give it to him.
Task<Status> make_dir_for(const EnvdCall& call, const User& user, std::string who, std::string path);
Task<Status> fill_file_for(const EnvdCall& call, const User& user, std::string who, std::string path,
                           FileContents contents);

/// The directories above `path` that are missing, made for the user: which ones, the outermost first. Where
/// one cannot be made, none stays.
Task<Result<std::vector<std::string>>> make_parents_for(const EnvdCall& call, const User& user,
                                                        std::string path);
/// Takes that back, as far as nobody has put anything into them.
Task<void> unmake_parents(const EnvdCall& call, const User& user, std::vector<std::string> made);

} // namespace berth::e2b
