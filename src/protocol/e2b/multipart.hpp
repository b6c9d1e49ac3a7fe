#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace berth::e2b {

/// "…" of `multipart/form-data; boundary=…`; nothing when it is no such type.
[[nodiscard]] std::optional<std::string> boundary_of(std::string_view content_type);

/// The parts of a form, as their bytes come. A name of a file may have directories.
class MultipartReader {
public:
    struct Event {
        enum class Kind { Begin, Data, End, Done };
        Kind kind = Kind::Data;
        std::string name;     ///< of Begin: the field's
        std::string filename; ///< of Begin; may be empty
        std::string bytes;    ///< of Data
    };

    explicit MultipartReader(std::string_view boundary);

    void feed(std::string_view bytes);
    /// Nothing: more bytes are needed. After Done everything is ignored.
    [[nodiscard]] Result<std::optional<Event>> next();
    [[nodiscard]] bool done() const noexcept { return state_ == State::Done; }

private:
    enum class State { Preamble, AfterBoundary, Headers, Body, Done };
    Result<std::optional<Event>> read_headers();
    [[nodiscard]] std::string_view rest() const { return std::string_view(buffer_).substr(read_); }

    std::string delimiter_; ///< "\r\n--boundary"
    std::string buffer_ = "\r\n";
    std::size_t read_ = 0; ///< of the buffer, done with
    State state_ = State::Preamble;
};

} // namespace berth::e2b
