// What the ledger and the labels of an instance say, as another program reads them.

#include "place.hpp"

namespace berth {
namespace {

class Ledger : public LifecycleTest {
protected:
    static json::Value only(Process& process, const std::string& type)
    {
        const auto events = process.store->ledger({.type = type});
        EXPECT_EQ(events->size(), 1u) << type;
        if (events->empty()) return {};
        json::Object data = events->front().data;
        data.erase("sandbox_id");
        return data;
    }
    static json::Value value(std::string_view document) { return *json::parse(document); }
};

TEST_F(Ledger, TellsTheVolumesOfANewSandbox)
{
    auto one = process();
    auto wanted = wish("demo");
    wanted.spec.volumes = {{.name = "cache", .target = "/cache", .source = {}},
                           {.name = "data", .target = "/data", .writable = false, .source = {}}};
    must(run_task(one->lifecycle->acquire(wanted)));
    const auto events = one->store->ledger({.type = "sandbox_created"});
    ASSERT_EQ(events->size(), 1u);
    EXPECT_EQ(events->front().data.at("durable_file_systems"),
              value(R"([{"name":"cache","mount_path":"/cache","mode":"rw"},
                       {"name":"data","mount_path":"/data","mode":"ro"}])"));
}

TEST_F(Ledger, TellsHowACommandWasStarted)
{
    auto one = process();
    const auto made = must(run_task(one->lifecycle->acquire(wish("demo"))));
    ExecSpec exec{.id = "exec_01jd7f3k2m0000000000000000", .argv = {"cat"}, .cwd = "/tmp"};
    exec.input = ExecSpec::Stdin::Open;
    exec.terminal = TerminalSize{};
    ASSERT_TRUE(run_task(one->lifecycle->exec(made.record, exec)));
    EXPECT_EQ(only(*one, "sandbox_process_started"),
              value(R"({"process_id":"exec_01jd7f3k2m0000000000000000","command":["cat"],"cwd":"/tmp",
                       "mode":"pty","stdin":"open","output":"stream","lifecycle":"detached",
                       "status":"running"})"));
}

TEST_F(Ledger, TellsWhatWasBorrowedAndGivenBack)
{
    auto one = process();
    const auto made = run_task(one->lifecycle->attach("world", "theirs", {}));
    ASSERT_TRUE(made) << made.error().line();
    EXPECT_EQ(
        only(*one, "sandbox_attached"),
        value(R"({"attachment":{"type":"world","id":"theirs"},"default_workdir":"","reason":"theirs"})"));
    ASSERT_TRUE(run_task(one->lifecycle->detach(made->record.id())));
    EXPECT_EQ(only(*one, "sandbox_detached"),
              value(R"({"attachment":{"type":"world","id":"theirs"},"reason":"theirs"})"));
}

TEST_F(Ledger, AnInstanceCarriesBothHashes)
{
    auto one = process();
    auto wanted = wish("demo");
    wanted.spec.root = {.kind = Template::Kind::Image, .path = "ubuntu:24.04", .tag = {}};
    wanted.spec.policy.network = policy::Network::Off;
    wanted.spec.workdir = "/";
    const auto made = must(run_task(one->lifecycle->acquire(wanted)));
    const auto& labels = world_->instances.at(made.record.native).labels;
    EXPECT_EQ(labels.spec_hash, made.record.spec_hash);
    EXPECT_EQ(labels.exo_hash, "8b720987830e622f") << "what exo computes for this request";
}

} // namespace
} // namespace berth
