#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/docker/engine.hpp"

/// Commands that the engine itself starts in a container, and their streams on one connection.
namespace berth::docker {

struct EngineCommand {
    std::vector<std::string> words;
    std::string user = "0:0";
    std::vector<std::string> env{};
    bool input = false;
};

/// Returns when it was started; nobody hears of it any more.
[[nodiscard]] Status start_detached(const Engine& engine, const std::string& container,
                                    const EngineCommand& command);

/// One that is heard. One thread may read while others write.
class ExecStream {
public:
    [[nodiscard]] static Result<ExecStream> start(const Engine& engine, const std::string& container,
                                                  const EngineCommand& command);

    struct Piece {
        enum class From { Out, Err, Nobody, End }; ///< Nobody: the time was over
        From from = From::Nobody;
        std::string bytes{};
    };
    [[nodiscard]] Result<Piece> read(SteadyTime until);
    [[nodiscard]] Status write(std::string_view bytes, SteadyTime until);
    /// Every wait on it ends. For any thread, while it lives.
    void hang_up() const noexcept;

    /// Its exit code once the stream has ended, as the engine tells it.
    [[nodiscard]] Result<int> exit_code(const Engine& engine) const;

private:
    ExecStream(std::string id, UniqueFd socket, std::string early)
        : id_(std::move(id)), socket_(std::move(socket)), pending_(std::move(early))
    {
    }
    std::string id_;
    UniqueFd socket_;
    std::string pending_; ///< what has come of a piece that is not whole
    std::unique_ptr<std::mutex> writing_ = std::make_unique<std::mutex>();
};

/// The first whole piece of `bytes`, which loses it; Nobody: there is none yet. Pure.
[[nodiscard]] Result<ExecStream::Piece> take_piece(std::string& bytes);

} // namespace berth::docker
