#include "protocol/e2b/multipart.hpp"

#include <algorithm>

#include "base/strings.hpp"

namespace berth::e2b {

namespace {

constexpr std::size_t kHeaderLimit = 16 * 1024;
constexpr std::size_t kBoundaryLimit = 200;

std::string lower(std::string_view text)
{
    std::string out(text);
    std::ranges::transform(
        out, out.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    return out;
}

/// The value of `name=` in a header, quoted or not. Browsers and clients escape a quote as %22 or \".
std::optional<std::string> parameter(std::string_view header, std::string_view name)
{
    const std::string low = lower(header);
    for (std::size_t at = low.find(';'); at != std::string::npos; at = low.find(';', at + 1)) {
        std::size_t begin = low.find_first_not_of(" \t", at + 1);
        if (begin == std::string::npos) return std::nullopt;
        if (low.compare(begin, name.size(), name) != 0 || low[begin + name.size()] != '=') continue;
        begin += name.size() + 1;
        if (begin >= header.size()) return std::string{};
        if (header[begin] != '"') {
            const auto end = header.find_first_of("; \t\r\n", begin);
            return std::string(header.substr(begin, end - begin));
        }
        std::string out;
        for (++begin; begin < header.size() && header[begin] != '"'; ++begin) {
            if (header[begin] == '\\' && begin + 1 < header.size() &&
                (header[begin + 1] == '"' || header[begin + 1] == '\\'))
                ++begin;
            out += header[begin];
        }
        for (const auto& [code, plain] :
             {std::pair<std::string_view, char>{"%22", '"'}, {"%0D", '\r'}, {"%0A", '\n'}})
            for (auto found = out.find(code); found != std::string::npos; found = out.find(code))
                out.replace(found, code.size(), 1, plain);
        return out;
    }
    return std::nullopt;
}

} // namespace

std::optional<std::string> boundary_of(std::string_view content_type)
{
    if (!lower(content_type.substr(0, content_type.find(';'))).starts_with("multipart/form-data"))
        return std::nullopt;
    auto out = parameter(content_type, "boundary");
    if (!out || out->empty() || out->size() > kBoundaryLimit) return std::nullopt;
    return out;
}

MultipartReader::MultipartReader(std::string_view boundary) : delimiter_("\r\n--" + std::string(boundary)) {}

Result<std::optional<MultipartReader::Event>> MultipartReader::read_headers()
{
    const auto end = buffer_.find("\r\n\r\n");
    if (end == std::string::npos) {
        if (buffer_.size() > kHeaderLimit) return fail(Code::Invalid, "a part's head is too large");
        return std::optional<Event>{};
    }
    Event out{.kind = Event::Kind::Begin};
    std::string_view rest = std::string_view(buffer_).substr(0, end);
    while (!rest.empty()) {
        const auto line = rest.substr(0, rest.find("\r\n"));
        rest.remove_prefix(std::min(rest.size(), line.size() + 2));
        if (!lower(line).starts_with("content-disposition:")) continue;
        out.name = parameter(line, "name").value_or("");
        out.filename = parameter(line, "filename").value_or("");
    }
    buffer_.erase(0, end + 4);
    state_ = State::Body;
    return out;
}

Result<std::optional<MultipartReader::Event>> MultipartReader::next()
{
    for (;;) {
        switch (state_) {
        case State::Done: buffer_.clear(); return std::optional<Event>{};
        case State::Preamble: {
            const auto at = buffer_.find(delimiter_);
            if (at == std::string::npos) {
                if (buffer_.size() > kHeaderLimit)
                    return fail(Code::Invalid, "the form has no first boundary");
                return std::optional<Event>{};
            }
            buffer_.erase(0, at + delimiter_.size());
            state_ = State::AfterBoundary;
            break;
        }
        case State::AfterBoundary: {
            if (buffer_.size() < 2) return std::optional<Event>{};
            if (buffer_.starts_with("--")) {
                state_ = State::Done;
                return Event{.kind = Event::Kind::Done};
            }
            const auto line = buffer_.find("\r\n");
            if (line == std::string::npos) {
                if (buffer_.size() > kHeaderLimit) return fail(Code::Invalid, "a boundary without end");
                return std::optional<Event>{};
            }
            if (buffer_.find_first_not_of(" \t") != line)
                return fail(Code::Invalid, "text behind a boundary");
            buffer_.erase(0, line); // its line end stays in front of the headers
            state_ = State::Headers;
            break;
        }
        case State::Headers: return read_headers();
        case State::Body: {
            const auto at = buffer_.find(delimiter_);
            if (at == 0) {
                buffer_.erase(0, delimiter_.size());
                state_ = State::AfterBoundary;
                return Event{.kind = Event::Kind::End};
            }
            // What may be the beginning of a delimiter waits for the rest of it.
            const std::size_t safe = at != std::string::npos              ? at
                                     : buffer_.size() > delimiter_.size() ? buffer_.size() - delimiter_.size()
                                                                          : 0;
            if (safe == 0) return std::optional<Event>{};
            Event out{.kind = Event::Kind::Data, .bytes = buffer_.substr(0, safe)};
            buffer_.erase(0, safe);
            return out;
        }
        }
    }
}

} // namespace berth::e2b
