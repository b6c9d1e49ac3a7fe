#include "backend/docker/await_keeper.hpp"

#include <algorithm>
#include <thread>

#include "backend/docker/attach.hpp"
#include "backend/docker/inspect.hpp"
#include "backend/docker/mounts.hpp"
#include "base/json_reader.hpp"
#include "keeping/keeper_client.hpp"
#include "sys/cgroup_maker.hpp"
#include "sys/socket.hpp"

namespace berth::docker {

namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 30s;

} // namespace

Status await_keeper(int directory, const Engine& engine, Instance& instance)
{
    BERTH_TRY(const auto container, inspect_container(engine, instance.container));
    Instance started = instance;
    started.pid = container.pid;
    const auto deadline = system_clock().steady() + kPatience;
    auto look_again = system_clock().steady() + 500ms;
    for (auto pause = 500us;; pause = std::min(pause * 2, 20'000us)) {
        const auto in = keeper_place(directory, started);
        auto keeper = in ? keeping::KeeperClient::connect(in->get(), "sock", 5s)
                         : Result<keeping::KeeperClient>(std::unexpected(in.error()));
        if (keeper && keeper->ping()) {
            BERTH_TRY(const auto peer, sys::peer_credentials(keeper->socket()));
            const auto process = sys::process_of(peer.pid);
            if (peer.pid == container.pid && process) {
                BERTH_CHECK(check_shown(peer.pid, instance.spec, instance.pins));
                instance.pid = peer.pid;
                instance.start_time = process->start_time;
                instance.boot = boot_id();
                return {};
            }
        }
        const auto now = system_clock().steady();
        if (now >= look_again) {
            BERTH_TRY(const auto again, inspect_container(engine, instance.container));
            if (!again.running)
                return fail(Code::Unavailable, "the container of {} ended at once", instance.spec.id);
            look_again = now + 500ms;
        }
        if (now >= deadline)
            return fail(Code::Unavailable, "the keeper of {} does not answer{}", instance.spec.id,
                        keeper ? "" : ": " + keeper.error().message);
        std::this_thread::sleep_for(pause);
    }
}

} // namespace berth::docker
