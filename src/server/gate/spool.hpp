#pragma once

#include "base/bytes.hpp"
#include "base/unique_fd.hpp"
#include "server/gate/face.hpp"

namespace berth::gate {

/// An upload on its way: kept aside until it is complete, so that one that is cut off changes nothing.
class Spool {
public:
    [[nodiscard]] static Task<Result<Spool>> open(Ground& ground);

    /// Exhausted: more than an upload may have.
    Task<Status> add(std::string bytes);
    /// At its beginning, to be read.
    Task<Result<UniqueFd>> finish();

private:
    Spool(Ground& ground, UniqueFd file) : ground_(&ground), file_(std::move(file)) {}
    Task<Status> flush();

    Ground* ground_;
    UniqueFd file_;
    std::string pending_;
    std::uint64_t size_ = 0;
};

inline constexpr Bytes kUploadLimit = 16_GiB;

} // namespace berth::gate
