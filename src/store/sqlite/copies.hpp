#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/record.hpp"

namespace berth::store {

/// What a new store is made from when the file of the old one is lost: the owner's name, and a small file
/// for each record that is not over, beside it. While the store is there it alone is true, and a copy that
/// could not be written harms nobody.
class Copies {
public:
    explicit Copies(const std::string& store);

    /// Nothing: there never was a store here, or its name cannot be read.
    [[nodiscard]] std::optional<std::string> owner() const;
    void keep_owner(const std::string& owner) const;

    /// True: there were none yet, and somebody must copy what is there.
    [[nodiscard]] bool begin() const;
    /// One that is over is forgotten.
    void keep(const SandboxRecord& record) const;
    void keep(const SnapshotRecord& snapshot) const;
    void forget(const std::string& id) const;

    struct Kept {
        std::vector<SandboxRecord> sandboxes;
        std::vector<SnapshotRecord> snapshots; ///< the oldest first
        std::vector<std::string> unreadable;   ///< names of files
    };
    [[nodiscard]] Result<Kept> read() const;

private:
    void write(const std::string& id, const std::string& text) const;

    std::string directory_; ///< of the store
    std::string records_;
};

} // namespace berth::store
