#pragma once

#include <string>
#include <string_view>

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

/// Said by a backend, under its name, that it runs programs that are brought: whoever brings one asks first,
/// because any other backend would look for argv[0].
struct TakesPrograms {
    explicit TakesPrograms(std::string backend);
};
[[nodiscard]] bool takes_programs(std::string_view backend);

/// The program of an exec, borrowed; -1: it has none.
[[nodiscard]] int program_of(const std::string& exec);

} // namespace berth
