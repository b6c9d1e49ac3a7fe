#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/blocking_pool.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace berth::gate {

/// A directory of ours, made where there is none.
[[nodiscard]] Result<UniqueFd> open_directory(const std::string& path);

/// Small documents in a directory of ours, each replaced as a whole and on disk before anybody is told. Of
/// several changes of one name at once the last that was asked for stays, whichever thread comes first. Used
/// from the loop alone.
class Documents {
public:
    Documents(BlockingPool& pool, std::string directory);

    [[nodiscard]] const std::string& directory() const noexcept { return directory_; }
    Task<Status> save(std::string name, std::string text);
    /// One that is not there is removed already.
    Task<Status> remove(std::string name);

private:
    struct Slot;
    Task<Status> change(std::string name, std::function<Status(int directory)> work);

    BlockingPool& pool_;
    std::string directory_;
    std::map<std::string, std::shared_ptr<Slot>> changing_;
};

} // namespace berth::gate
