#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace berth::http {

/// gzip undone as its bytes come.
class Inflater {
public:
    Inflater();
    Inflater(Inflater&&) noexcept;
    Inflater& operator=(Inflater&&) noexcept;
    ~Inflater();

    /// Invalid: not gzip. `out` may grow by a thousand times the input: whoever counts has a limit.
    [[nodiscard]] Status feed(std::string_view bytes, std::string& out);
    /// The end of the stream was seen.
    [[nodiscard]] bool done() const noexcept;

private:
    struct Stream;
    std::unique_ptr<Stream> stream_;
};

} // namespace berth::http
