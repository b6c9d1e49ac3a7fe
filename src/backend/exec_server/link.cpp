#include "backend/exec_server/link.hpp"

#include "base/json_reader.hpp"
#include "base/strings.hpp"
#include "protocol/jsonrpc/message.hpp"
#include "scripted/command.hpp"

namespace berth::exec_server {

namespace {

constexpr std::size_t kMostCalls = 1024;
constexpr std::size_t kMostSession = 256;
constexpr std::int64_t kNotFound = -32004;
constexpr std::int64_t kAttached = -32010;

Error lost(std::string_view why) { return fail(Code::Unavailable, "{}", why).error(); }

} // namespace

Error error_of_answer(std::int64_t code, std::string_view message, std::string_view method)
{
    Code meant = Code::Internal;
    switch (code) {
    case jsonrpc::kInvalidRequest: meant = Code::Conflict; break;
    case jsonrpc::kMethodNotFound: meant = Code::Unsupported; break;
    case jsonrpc::kInvalidParams: meant = Code::Unsupported; break;
    case kNotFound: meant = Code::NotFound; break;
    case kAttached: meant = Code::Unavailable; break;
    default: break;
    }
    auto out = scripted::error_of_words(message, fmt::format("the exec-server on {}", method), meant);
    if (code == kNotFound) out.code = Code::NotFound;
    return out;
}

Result<std::unique_ptr<Link>> Link::open(const Config& config, const std::string& resume, Notify notify,
                                         SteadyTime until)
{
    std::unique_ptr<Link> link(new Link(std::move(notify)));
    auto* const self = link.get();
    BERTH_TRY(link->socket_,
              Socket::connect(config,
                              {.message = [self](const std::string& text) { self->take(text); },
                               .broken = [self](Error why) { self->fail_all(std::move(why)); }},
                              until));
    BERTH_CHECK(link->greet(resume, until));
    return link;
}

Link::~Link() { socket_.reset(); }

Status Link::greet(const std::string& resume, SteadyTime until)
{
    json::Object hello;
    hello["clientName"] = "berth";
    if (!resume.empty()) hello["resumeSessionId"] = resume;
    auto answer = call("initialize", std::move(hello), until);
    if (!answer) {
        auto why = std::move(answer).error();
        if (!resume.empty() && why.code == Code::Conflict) why.code = Code::NotFound;
        return std::unexpected(std::move(why));
    }
    const json::Reader at(*answer);
    BERTH_TRY(const auto session, at.at("sessionId"));
    BERTH_TRY(session_, session.string());
    if (session_.empty() || session_.size() > kMostSession)
        return fail(Code::Invalid, "the exec-server has no good name for the session");
    if (!resume.empty() && session_ != resume)
        return fail(Code::NotFound, "the exec-server has begun another session");
    BERTH_TRY(const auto info, at.find("environmentInfo"));
    if (info) info_ = info->value();
    socket_->send(jsonrpc::encode(jsonrpc::Notification{.method = "initialized", .params = json::Object{}}));
    return {};
}

Result<json::Value> Link::call(std::string_view method, json::Object params, SteadyTime until)
{
    const auto slot = std::make_shared<Waiting>();
    std::int64_t id = 0;
    {
        const std::scoped_lock lock(mutex_);
        if (broken_) return std::unexpected(*broken_);
        if (waiting_.size() >= kMostCalls)
            return fail(Code::Exhausted, "too many calls to the exec-server at once");
        id = ++last_id_;
        waiting_[id] = slot;
        // In the order of the ids: two writes to one process must not change places.
        socket_->send(jsonrpc::encode(
            jsonrpc::Request{.id = id, .method = std::string(method), .params = std::move(params)}));
    }
    std::unique_lock lock(mutex_);
    const bool done = changed_.wait_until(lock, until, [&] { return slot->done; });
    waiting_.erase(id);
    if (!done) return fail(Code::DeadlineExceeded, "the exec-server does not answer {}", method);
    return std::move(slot->answer);
}

void Link::take(const std::string& message)
{
    auto read = jsonrpc::decode(message);
    if (!read) {
        fail_all(fail(Code::Invalid, "the exec-server sends what is no message: {}",
                      printable(read.error().message, 200))
                     .error());
        return;
    }
    if (const auto* told = std::get_if<jsonrpc::Notification>(&*read)) {
        notify_(told->method, told->params);
        return;
    }
    if (const auto* asked = std::get_if<jsonrpc::Request>(&*read)) {
        socket_->send(jsonrpc::encode(jsonrpc::ErrorResponse{
            .id = asked->id, .code = jsonrpc::kMethodNotFound, .message = "not a method of this client"}));
        return;
    }
    auto* const answer = std::get_if<jsonrpc::Response>(&*read);
    auto* const error = std::get_if<jsonrpc::ErrorResponse>(&*read);
    const auto* const id = std::get_if<std::int64_t>(answer != nullptr ? &answer->id : &error->id);
    const std::scoped_lock lock(mutex_);
    // One that came too late has nobody who waits for it.
    const auto at = id == nullptr ? waiting_.end() : waiting_.find(*id);
    if (at == waiting_.end() || at->second->done) return;
    at->second->done = true;
    if (answer != nullptr)
        at->second->answer = std::move(answer->result);
    else
        at->second->answer = std::unexpected(error_of_answer(error->code, error->message, "a request"));
    changed_.notify_all();
}

void Link::fail_all(Error why)
{
    const std::scoped_lock lock(mutex_);
    if (broken_) return;
    for (auto& [id, one] : waiting_) {
        if (one->done) continue;
        one->done = true;
        one->answer = std::unexpected(lost(why.message));
    }
    broken_ = std::move(why);
    changed_.notify_all();
}

void Link::hang_up(Error why) { fail_all(std::move(why)); }

std::optional<Error> Link::broken() const
{
    const std::scoped_lock lock(mutex_);
    return broken_;
}

bool Link::wait_broken(SteadyTime until) const
{
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, until, [&] { return broken_.has_value(); });
}

} // namespace berth::exec_server
