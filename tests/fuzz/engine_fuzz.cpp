// What an engine says: the stream of a command, an archive with one file, documents about containers and
// events.

#include <cstdint>
#include <cstdlib>
#include <string>

#include "backend/docker/changes.hpp"
#include "backend/docker/container.hpp"
#include "backend/docker/exec_stream.hpp"
#include "backend/docker/far_files.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    using namespace berth;
    const std::string bytes(reinterpret_cast<const char*>(data), size);
    std::string left = bytes;
    for (;;) {
        const std::size_t before = left.size();
        const auto piece = docker::take_piece(left);
        if (!piece || piece->from == docker::ExecStream::Piece::From::Nobody) break;
        if (left.size() + piece->bytes.size() >= before) std::abort(); // it goes on
    }
    if (const auto file = docker::first_file(bytes); file && file->size() > size) std::abort();
    (void)docker::parse_moment(bytes);
    if (const auto document = json::parse(bytes)) {
        (void)docker::parse_event(*document);
        (void)docker::parse_containers(*document);
        if (const auto one = docker::parse_container(*document); one && !docker::check_engine_id(one->id))
            std::abort();
    }
    return 0;
}
