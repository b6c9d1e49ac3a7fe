#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "core/sandbox_spec.hpp"

/// Durable directories: one for each (key, name), kept until somebody removes it by name. Beside each
/// lies a small file that says whose it is, written before the directory exists.
namespace berth::volumes {

/// A volume whose name begins so belongs to no key: every sandbox that names it has the same directory. Such
/// names are for programs that know who may have which; nobody writes one on a command line.
inline constexpr std::string_view kShared = "shared:";
/// Whose a volume of a sandbox is: its key's, or everybody's who shares it.
[[nodiscard]] std::string owner_of(const std::string& key, const std::string& name);

struct Known {
    std::string directory; ///< its name below the root: 16 hexadecimal digits
    std::string key;
    std::string name;
};

/// Makes what is missing and fills in the sources.
[[nodiscard]] Status provide(const std::string& root, const std::string& key, SandboxSpec& spec);
[[nodiscard]] Result<std::vector<Known>> list(const std::string& root);
/// NotFound: there is none. Not while a sandbox uses it: the caller sees to that.
[[nodiscard]] Status remove(const std::string& root, const Known& volume);

} // namespace berth::volumes
