#include <CLI/CLI.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include "base/blocking_pool.hpp"
#include "cli/forward.hpp"
#include "cli/remote.hpp"

namespace berth::cli::remote {

namespace {

Result<int> run(Server& server, ForwardWish& wish)
{
    BERTH_CHECK(check(wish));
    BERTH_TRY(const auto sandbox, use(server, wish.sandbox));
    const std::string path = fmt::format("{}/ports/{}", sandbox, wish.port);
    constexpr std::size_t threads = 4; // a connection takes one until it stands
    BlockingPool pool(threads);
    const Dial dial = [&] { return pool.call([&] { return server.dial(path); }); };
    Connections connections;
    boost::asio::io_context loop(1);
    Status ended;
    boost::asio::co_spawn(loop, forward(dial, wish, connections),
                          [&](const std::exception_ptr& thrown, Status status) {
                              if (thrown) std::rethrow_exception(thrown);
                              ended = std::move(status);
                          });
    loop.run();
    BERTH_CHECK(ended);
    return 0;
}

} // namespace

int port_verb(Server& server, int argc, char** argv)
{
    CLI::App app("Reach a port that a program in a sandbox on the server listens on: connections to an\n"
                 "address of this machine are passed on until Ctrl-C.\n\n"
                 "Example:\n  berth port mybox 8000 --server http://127.0.0.1:7600\n",
                 "berth port");
    ForwardWish wish;
    add_forward_options(app, wish);
    if (const auto done = parse(app, wish.common, argc, argv)) return *done;
    const auto code = run(server, wish);
    return code ? *code : report(code.error(), wish.common);
}

} // namespace berth::cli::remote
