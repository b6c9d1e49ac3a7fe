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

    /// Takes from the front of `bytes`, which it shortens, until they are used up or `out` has grown by
    /// about `most`: a byte may stand for a thousand. True: there may be more without further bytes. Invalid:
    /// not gzip.
    [[nodiscard]] Result<bool> feed(std::string& bytes, std::string& out, std::size_t most);
    /// The end of the stream was seen.
    [[nodiscard]] bool done() const noexcept;

private:
    struct Stream;
    std::unique_ptr<Stream> stream_;
};

} // namespace berth::http
