#include "backend/exec_server/commands.hpp"

namespace berth::exec_server {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMostKept = std::size_t{16} << 20;
constexpr auto kPatience = 60s; // of whoever takes the events

} // namespace

Result<std::optional<codex::ProcessEvent>> Commands::Inbox::next(SteadyTime until)
{
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, until, [&] { return !queue_.empty() || failed_; });
    if (queue_.empty()) {
        if (failed_) return std::unexpected(*failed_);
        return std::optional<codex::ProcessEvent>{};
    }
    auto out = std::move(queue_.front());
    queue_.pop_front();
    bytes_ -= out.bytes.size();
    changed_.notify_all();
    return out;
}

std::shared_ptr<Commands::Inbox> Commands::open(const std::string& process)
{
    const std::scoped_lock lock(mutex_);
    return all_[process] = std::make_shared<Inbox>();
}

void Commands::close(const std::string& process)
{
    std::shared_ptr<Inbox> inbox;
    {
        const std::scoped_lock lock(mutex_);
        const auto at = all_.find(process);
        if (at == all_.end()) return;
        inbox = std::move(at->second);
        all_.erase(at);
    }
    const std::scoped_lock lock(inbox->mutex_);
    inbox->failed_ = fail(Code::Unavailable, "nobody waits for it any more").error();
    inbox->changed_.notify_all();
}

void Commands::take(const std::string& method, const json::Value& params)
{
    auto told = codex::read_process_event(method, params);
    if (!told || !*told) return; // what nobody can read, nobody waits for: a deadline ends that
    std::shared_ptr<Inbox> inbox;
    {
        const std::scoped_lock lock(mutex_);
        const auto at = all_.find((*told)->process);
        if (at == all_.end()) return;
        inbox = at->second;
    }
    auto& event = (*told)->event;
    std::unique_lock lock(inbox->mutex_);
    if (inbox->failed_) return;
    if (event.seq != inbox->last_ + 1) {
        inbox->failed_ =
            fail(Code::Unavailable, "the exec-server tells event {} after event {}", event.seq, inbox->last_)
                .error();
        inbox->changed_.notify_all();
        return;
    }
    inbox->last_ = event.seq;
    const bool room = inbox->changed_.wait_for(
        lock, kPatience, [&] { return inbox->bytes_ < kMostKept || inbox->failed_.has_value(); });
    if (!room) inbox->failed_ = fail(Code::DeadlineExceeded, "what a command prints is not taken").error();
    if (inbox->failed_) return;
    inbox->bytes_ += event.bytes.size();
    inbox->queue_.push_back(std::move(event));
    inbox->changed_.notify_all();
}

void Commands::fail_all(const Error& why)
{
    std::map<std::string, std::shared_ptr<Inbox>> all;
    {
        const std::scoped_lock lock(mutex_);
        all.swap(all_);
    }
    for (const auto& [process, inbox] : all) {
        const std::scoped_lock lock(inbox->mutex_);
        if (!inbox->failed_) inbox->failed_ = why;
        inbox->changed_.notify_all();
    }
}

} // namespace berth::exec_server
