#pragma once

#include <string>
#include <string_view>

namespace berth::conformance {

/// A tar archive written header by header, so that a check can say anything, true or not.
class Tar {
public:
    struct Member {
        std::string name;
        char type = '0';
        std::string link{};
        unsigned mode = 0644;
        unsigned long long size = 0;
    };

    Tar& header(const Member& member);
    Tar& content(std::string_view bytes); ///< padded to a block
    Tar& file(const std::string& name, std::string_view bytes, unsigned mode = 0644);
    Tar& directory(const std::string& name, unsigned mode = 0755);
    Tar& symlink(const std::string& name, const std::string& target);
    /// An extended header of the next member.
    Tar& pax(const std::string& key, const std::string& value);
    /// The GNU form of a name that is longer than a header has room for.
    Tar& long_name(const std::string& name);

    [[nodiscard]] std::string done() const { return bytes_ + std::string(1024, '\0'); }
    [[nodiscard]] const std::string& so_far() const { return bytes_; }

private:
    std::string bytes_;
};

} // namespace berth::conformance
