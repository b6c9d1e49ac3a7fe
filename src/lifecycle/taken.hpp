#pragma once

#include <string>

#include "core/store.hpp"

/// A name and a key find one sandbox each: a new one is not made under those of another. For whoever holds
/// the lock of it, or only wants to know.
namespace berth::taken {

/// Conflict, which names who has it. An empty one is nobody's.
[[nodiscard]] Status check_new_name(Store& store, const std::string& name);
[[nodiscard]] Status check_new_key(Store& store, const std::string& key);

} // namespace berth::taken
