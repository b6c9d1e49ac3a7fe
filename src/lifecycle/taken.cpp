#include "lifecycle/taken.hpp"

#include "base/strings.hpp"

namespace berth::taken {

Status check_new_name(Store& store, const std::string& name)
{
    if (name.empty()) return {};
    BERTH_TRY(const auto named, store.list({.name = name, .limit = 1}));
    if (named.empty()) return {};
    return fail(Code::Conflict, "a sandbox named '{}' exists: {}", printable(name, 60), named.front().id());
}

Status check_new_key(Store& store, const std::string& key)
{
    if (key.empty()) return {};
    BERTH_TRY(const auto keyed, store.find_key(key));
    if (!keyed) return {};
    return fail(Code::Conflict, "a sandbox with the key '{}' exists: {}", printable(key, 60), keyed->id());
}

} // namespace berth::taken
