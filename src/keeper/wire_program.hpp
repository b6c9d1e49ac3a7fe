#pragma once

#include "keeper/wire_check.hpp"

/// An exec that brings its program: an EXEC with this flag has one more descriptor, the last, which is
/// executed; argv[0] is then only a name, and nothing is looked up inside. Flag and descriptor are taken off
/// first: what is left is an EXEC like any other. A keeper that does not know the flag refuses the request.
namespace berth::keeper {

inline constexpr std::uint32_t kProgram = std::uint32_t{1} << 31;
/// The first word only leads to the program: what it gets as its argv begins with the second. The relay knows
/// this flag too, and a one-shot its own.
inline constexpr std::uint32_t kNamed = std::uint32_t{1} << 30;
inline constexpr std::uint64_t kOneShotNamed = 1 << 15;

/// Takes the flag off a message; true when it was there and a descriptor came with it.
inline bool take_program_flag(char* bytes, std::size_t length, std::uint32_t descriptors)
{
    if (length < sizeof(ExecRequest) || descriptors == 0) return false;
    auto request = load<ExecRequest>(bytes);
    if (static_cast<Type>(request.header.type) != Type::Exec || (request.flags & kProgram) == 0) return false;
    request.flags &= ~kProgram;
    __builtin_memcpy(bytes, &request, sizeof request);
    return true;
}

/// The same for a name: true when it was there, and two words.
inline bool take_named_flag(char* bytes, std::size_t length)
{
    if (length < sizeof(ExecRequest)) return false;
    auto request = load<ExecRequest>(bytes);
    if (static_cast<Type>(request.header.type) != Type::Exec || (request.flags & kNamed) == 0) return false;
    if (request.argc < 2) return false; // the flag stays, and nobody knows it
    request.flags &= ~kNamed;
    __builtin_memcpy(bytes, &request, sizeof request);
    return true;
}

} // namespace berth::keeper
