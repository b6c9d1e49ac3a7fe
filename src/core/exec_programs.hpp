#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.hpp"

namespace berth {

/// A program that an exec brings along, for as long as this lives. An ExecSpec is a plain value that is
/// copied, hashed and kept; a descriptor is not, so it waits here under the exec's id. A backend that can run
/// one asks for it; with any other, argv[0] names a file as always.
class GivenProgram {
public:
    GivenProgram(std::string exec, int program); ///< `program` is borrowed
    GivenProgram(const GivenProgram&) = delete;
    GivenProgram& operator=(const GivenProgram&) = delete;
    ~GivenProgram();

    /// Whether a backend asked for it.
    [[nodiscard]] bool taken() const;

private:
    std::string exec_;
};

/// What a program is called instead of argv[0], which then only leads to it: the first word of what it gets.
/// Waits as a program does, since only one protocol has a word for it.
class GivenName {
public:
    GivenName(std::string exec, std::string name);
    GivenName(const GivenName&) = delete;
    GivenName& operator=(const GivenName&) = delete;
    ~GivenName();

private:
    std::string exec_;
};

/// Said by a backend, under its name, that it runs programs that are brought and calls them as they are to be
/// called: whoever brings one asks first, because any other backend would look for argv[0].
struct TakesPrograms {
    explicit TakesPrograms(std::string backend);
};
[[nodiscard]] bool takes_programs(std::string_view backend);

/// The program of an exec, borrowed; -1: it has none.
[[nodiscard]] int program_of(const std::string& exec);
[[nodiscard]] std::optional<std::string> name_of(const std::string& exec);
/// The argv of an exec as its program gets it.
[[nodiscard]] std::vector<std::string> argv_of(const std::string& exec, std::vector<std::string> argv);
/// The same with what leads to the program before it, where that is another word; true: it is.
[[nodiscard]] bool add_name(const std::string& exec, std::vector<std::string>& argv);

} // namespace berth
