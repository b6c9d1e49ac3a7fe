#include <CLI/CLI.hpp>

#include "cli/exec_options.hpp"
#include "cli/forward.hpp"
#include "cli/session.hpp"
#include "cli/verbs.hpp"

namespace berth::cli {

namespace {

Task<Status> run_port(Lifecycle& lifecycle, ForwardWish wish, Connections& connections)
{
    BERTH_CO_TRY(const auto acquired, co_await lifecycle.use(wish.sandbox));
    say_unless_attached(acquired);
    BERTH_CO_TRY(auto* const backend, co_await lifecycle.backend(acquired.record.backend));
    const auto handle = Lifecycle::handle(acquired.record);
    wish.sandbox = handle.sandbox;
    const Dial dial = [backend, handle, port = wish.port] { return backend->dial(handle, port); };
    co_return co_await forward(dial, std::move(wish), connections);
}

Result<int> run(ForwardWish& wish)
{
    BERTH_CHECK(check(wish));
    BERTH_TRY(const auto berth, open_berth(wish.common));
    Connections connections;
    BERTH_CHECK(berth->run(run_port(berth->lifecycle(), wish, connections)));
    return 0;
}

} // namespace

int port_verb(int argc, char** argv)
{
    CLI::App app(
        "Reach a port that a program in a sandbox listens on, also of a sandbox without any network:\n"
        "connections to an address of this machine are passed on until Ctrl-C.\n\n"
        "Example:\n"
        "  berth port mybox 8000 --listen 127.0.0.1:8000\n",
        "berth port");
    ForwardWish wish;
    add_forward_options(app, wish);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, wish.common, argc, argv)) return *done;
    const auto code = run(wish);
    return code ? *code : report(code.error(), wish.common);
}

} // namespace berth::cli
