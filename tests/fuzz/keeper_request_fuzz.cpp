// What a client sends to the keeper: header, lengths, counts and the words of a command. The first
// byte is the number of descriptors that came with it.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "keeper/wire.hpp"
#include "keeper/wire_program.hpp"

namespace {

void require(bool holds)
{
    if (!holds) std::abort();
}

/// A body that was split has exactly the words it promised, each inside and ended.
void check_words(const char* body, std::size_t length, std::uint32_t argc, std::uint32_t envc)
{
    std::vector<const char*> words(std::size_t{1} + argc + envc);
    if (!berth::keeper::split_body(body, length, argc, envc, words.data())) return;
    const char* at = body;
    for (const char* word : words) {
        require(word == at && word < body + length);
        at += std::string_view(word).size() + 1;
    }
    require(at == body + length);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    using namespace berth::keeper;
    if (size == 0) return 0;
    std::uint32_t descriptors = data[0];
    // On the heap with nothing behind it, so that one byte too far is seen.
    std::vector<char> message(data + 1, data + size);
    const std::vector<char> sent = message;
    if (take_program_flag(message.data(), message.size(), descriptors)) {
        --descriptors; // as the keeper does: the last one is the program
        require(static_cast<Type>(load<Header>(message.data()).type) == Type::Exec);
        require((load<ExecRequest>(message.data()).flags & kProgram) == 0);
        require((load<ExecRequest>(sent.data()).flags & kProgram) != 0);
    } else {
        require(message == sent);
    }
    if (check_request(message.data(), message.size(), descriptors) != 0) return 0;
    const auto header = load<Header>(message.data());
    require(header.length == message.size() && message.size() <= kMaxMessage);
    require(descriptors <= kMaxDescriptors);
    if (static_cast<Type>(header.type) != Type::Exec) return 0;
    const auto request = load<ExecRequest>(message.data());
    require(request.argc >= 1 && request.argc + request.envc <= kMaxWords);
    require(descriptors == descriptors_of(request));
    if (request.flags & kBodyInMemfd) return 0;
    require(request.body_length == message.size() - sizeof request);
    const std::vector<char> body(message.begin() + sizeof request, message.end());
    check_words(body.data(), body.size(), request.argc, request.envc);
    return 0;
}
