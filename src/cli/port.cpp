#include <CLI/CLI.hpp>

#include "cli/exec_options.hpp"
#include "cli/forward.hpp"
#include "cli/held.hpp"
#include "cli/session.hpp"
#include "cli/verbs.hpp"

namespace berth::cli {

namespace {

Result<int> run(ForwardWish& wish)
{
    BERTH_CHECK(check(wish));
    BERTH_TRY(const auto berth, open_berth(wish.common));
    Held held(*berth);
    BERTH_TRY(const auto acquired, held.use(wish.sandbox));
    say_unless_attached(acquired);
    BERTH_TRY(auto* const backend, berth->backend(acquired.record.backend));
    const auto handle = Lifecycle::handle(acquired.record);
    wish.sandbox = handle.sandbox;
    const Dial dial = [backend, handle, port = wish.port] { return backend->dial(handle, port); };
    Connections connections;
    BERTH_CHECK(held.run(forward(dial, wish, connections)));
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
