#include "conformance/tar.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace berth::conformance {

namespace {

constexpr std::size_t kBlock = 512;

void put(std::string& block, std::size_t at, std::string_view text, std::size_t room)
{
    block.replace(at, std::min(text.size(), room), text.substr(0, room));
}

void octal(std::string& block, std::size_t at, int width, unsigned long long value)
{
    put(block, at, fmt::format("{:0{}o}", value, width - 1), static_cast<std::size_t>(width - 1));
}

} // namespace

Tar& Tar::header(const Member& member)
{
    std::string block(kBlock, '\0');
    put(block, 0, member.name, 100);
    octal(block, 100, 8, member.mode);
    octal(block, 108, 8, 0);
    octal(block, 116, 8, 0);
    octal(block, 124, 12, member.size);
    octal(block, 136, 12, 1'000'000'000);
    put(block, 148, "        ", 8);
    block[156] = member.type;
    put(block, 157, member.link, 100);
    put(block, 257, std::string_view("ustar\00000", 8), 8);
    octal(block, 329, 8, member.type == '3' || member.type == '4' ? 1 : 0);
    octal(block, 337, 8, member.type == '3' || member.type == '4' ? 3 : 0);
    unsigned sum = 0;
    for (const char byte : block) sum += static_cast<unsigned char>(byte);
    octal(block, 148, 7, sum);
    block[154] = '\0';
    bytes_ += block;
    return *this;
}

Tar& Tar::content(std::string_view bytes)
{
    bytes_ += bytes;
    bytes_.append((kBlock - bytes.size() % kBlock) % kBlock, '\0');
    return *this;
}

Tar& Tar::file(const std::string& name, std::string_view bytes, unsigned mode)
{
    if (name.size() > 100) long_name(name);
    return header({.name = name, .mode = mode, .size = bytes.size()}).content(bytes);
}

Tar& Tar::directory(const std::string& name, unsigned mode)
{
    return header({.name = name, .type = '5', .mode = mode});
}

Tar& Tar::symlink(const std::string& name, const std::string& target)
{
    return header({.name = name, .type = '2', .link = target, .mode = 0777});
}

Tar& Tar::pax(const std::string& key, const std::string& value)
{
    const std::size_t rest = key.size() + value.size() + 3;
    std::size_t total = rest + 1;
    while (total != rest + std::to_string(total).size()) ++total;
    const std::string record = fmt::format("{} {}={}\n", total, key, value);
    return header({.name = "pax", .type = 'x', .size = record.size()}).content(record);
}

Tar& Tar::long_name(const std::string& name)
{
    return header({.name = "././@LongLink", .type = 'L', .size = name.size() + 1}).content(name + '\0');
}

} // namespace berth::conformance
