#include "protocol/e2b/multipart.hpp"

#include <algorithm>

#include "base/encoding.hpp"
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
    // The next parameter begins behind a semicolon that is not in quotes.
    const auto next = [&](std::size_t at) {
        for (bool quoted = false; at < header.size(); ++at) {
            if (header[at] == '\\' && quoted)
                ++at;
            else if (header[at] == '"')
                quoted = !quoted;
            else if (header[at] == ';' && !quoted)
                return at;
        }
        return std::string::npos;
    };
    for (std::size_t at = next(0); at != std::string::npos; at = next(at + 1)) {
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

/// What RFC 8187 makes of a name that is not ASCII: "UTF-8''na%C3%AFve". Nothing for any other form.
std::optional<std::string> extended(std::string_view value)
{
    constexpr std::string_view charset = "utf-8'";
    const auto text = value.find('\'', charset.size());
    if (!lower(value).starts_with(charset) || text == std::string_view::npos) return std::nullopt;
    return percent_decode(value.substr(text + 1));
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

/// What was read goes once for each piece that comes, however many parts the piece has.
void MultipartReader::feed(std::string_view bytes)
{
    buffer_.erase(0, read_);
    read_ = 0;
    buffer_ += bytes;
}

Result<std::optional<MultipartReader::Event>> MultipartReader::read_headers()
{
    const auto all = rest();
    const auto end = all.find("\r\n\r\n");
    if (end == std::string_view::npos) {
        if (all.size() > kHeaderLimit) return fail(Code::Invalid, "a part's head is too large");
        return std::optional<Event>{};
    }
    if (end > kHeaderLimit) return fail(Code::Invalid, "a part's head is too large");
    Event out{.kind = Event::Kind::Begin};
    std::string_view lines = all.substr(0, end);
    while (!lines.empty()) {
        const auto line = lines.substr(0, lines.find("\r\n"));
        lines.remove_prefix(std::min(lines.size(), line.size() + 2));
        if (!lower(line).starts_with("content-disposition:")) continue;
        out.name = parameter(line, "name").value_or("");
        const auto precise = extended(parameter(line, "filename*").value_or(""));
        out.filename = precise ? *precise : parameter(line, "filename").value_or("");
    }
    read_ += end + 4;
    state_ = State::Body;
    return out;
}

Result<std::optional<MultipartReader::Event>> MultipartReader::next()
{
    for (;;) {
        const auto all = rest();
        switch (state_) {
        case State::Done: read_ = buffer_.size(); return std::optional<Event>{};
        case State::Preamble: {
            const auto at = all.find(delimiter_);
            if (at == std::string_view::npos) {
                if (all.size() > kHeaderLimit) return fail(Code::Invalid, "the form has no first boundary");
                return std::optional<Event>{};
            }
            read_ += at + delimiter_.size();
            state_ = State::AfterBoundary;
            break;
        }
        case State::AfterBoundary: {
            if (all.size() < 2) return std::optional<Event>{};
            if (all.starts_with("--")) {
                state_ = State::Done;
                return Event{.kind = Event::Kind::Done};
            }
            const auto text = all.find_first_not_of(" \t");
            if (text == std::string_view::npos || all.substr(text).size() < 2) {
                if (all.size() > kHeaderLimit) return fail(Code::Invalid, "a boundary without end");
                return std::optional<Event>{};
            }
            if (!all.substr(text).starts_with("\r\n")) return fail(Code::Invalid, "text behind a boundary");
            read_ += text; // its line end stays in front of the headers
            state_ = State::Headers;
            break;
        }
        case State::Headers: return read_headers();
        case State::Body: {
            const auto at = all.find(delimiter_);
            if (at == 0) {
                read_ += delimiter_.size();
                state_ = State::AfterBoundary;
                return Event{.kind = Event::Kind::End};
            }
            // What may be the beginning of a delimiter waits for the rest of it.
            const std::size_t safe = at != std::string_view::npos     ? at
                                     : all.size() > delimiter_.size() ? all.size() - delimiter_.size()
                                                                      : 0;
            if (safe == 0) return std::optional<Event>{};
            Event out{.kind = Event::Kind::Data, .bytes = std::string(all.substr(0, safe))};
            read_ += safe;
            return out;
        }
        }
    }
}

} // namespace berth::e2b
