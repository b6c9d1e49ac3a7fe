#include "protocol/e2b/process.hpp"

#include <csignal>

#include <gtest/gtest.h>

namespace berth::e2b {
namespace {

ExitStatus status(int raw) { return ExitStatus::from_wait(raw); }

TEST(E2bProcess, ReadsWhatTheSdkSends)
{
    const auto request = read_start(
        R"({"process":{"cmd":"/bin/bash","args":["-l","-c","echo hi"],"envs":{"A":"1"},"cwd":"/tmp"},"stdin":false})");
    ASSERT_TRUE(request) << request.error().line();
    EXPECT_EQ(request->process.cmd, "/bin/bash");
    EXPECT_EQ(request->process.args, (std::vector<std::string>{"-l", "-c", "echo hi"}));
    EXPECT_EQ(request->process.envs.at("A"), "1");
    EXPECT_EQ(request->process.cwd, "/tmp");
    EXPECT_FALSE(request->stdin_open);
    EXPECT_FALSE(request->pty);
}

TEST(E2bProcess, AbsentStdinIsOpenForOldClients)
{
    const auto request =
        read_start(R"({"process":{"cmd":"cat"},"pty":{"size":{"cols":100,"rows":30}},"tag":"t"})");
    ASSERT_TRUE(request);
    EXPECT_TRUE(request->stdin_open);
    ASSERT_TRUE(request->pty);
    EXPECT_EQ(request->pty->columns, 100);
    EXPECT_EQ(request->tag, "t");
}

TEST(E2bProcess, RefusesWhatNamesNoCommand)
{
    for (const auto* const text : {"{}", R"({"process":{}})", R"({"process":{"cmd":7}})", "[]", "nonsense"})
        EXPECT_FALSE(read_start(text)) << text;
}

TEST(E2bProcess, SelectorsAreNumbersOrTags)
{
    EXPECT_EQ(std::get<std::uint32_t>(read_process_call(R"({"process":{"pid":7}})")->process), 7u);
    EXPECT_EQ(std::get<std::uint32_t>(read_process_call(R"({"process":{"pid":"7"}})")->process), 7u);
    EXPECT_EQ(std::get<std::string>(read_process_call(R"({"process":{"tag":"x"}})")->process), "x");
    EXPECT_TRUE(std::holds_alternative<std::monostate>(read_process_call("{}")->process));
}

TEST(E2bProcess, SignalsAreWordsOrNumbers)
{
    EXPECT_EQ(read_process_call(R"({"signal":"SIGNAL_SIGKILL"})")->signal, SIGKILL);
    EXPECT_EQ(read_process_call(R"({"signal":15})")->signal, SIGTERM);
    EXPECT_EQ(read_process_call(R"({"signal":"SIGNAL_SIGHUP"})")->signal, -1);
    EXPECT_EQ(read_process_call(R"({"signal":1})")->signal, -1);
}

TEST(E2bProcess, InputIsBase64OfEitherKind)
{
    const auto call = read_process_call(R"({"process":{"pid":1},"input":{"stdin":"aGk_"}})");
    ASSERT_TRUE(call && call->input);
    EXPECT_EQ(call->input->bytes, "hi?");
    EXPECT_EQ(read_process_call(R"({"input":{"pty":"Aw=="}})")->input->to, ProcessInput::To::Pty);
    EXPECT_FALSE(read_process_call(R"({"input":{"stdin":"!"}})"));
}

TEST(E2bProcess, EventsAreWhatTheSdkReads)
{
    EXPECT_EQ(start_event(6895), R"({"event":{"start":{"pid":6895}}})");
    EXPECT_EQ(data_event(Output::Stdout, "hi\n"), R"({"event":{"data":{"stdout":"aGkK"}}})");
    EXPECT_EQ(end_event(status(0)), R"({"event":{"end":{"exited":true,"status":"exit status 0"}}})");
    EXPECT_EQ(
        end_event(status(7 << 8)),
        R"({"event":{"end":{"exitCode":7,"exited":true,"status":"exit status 7","error":"exit status 7"}}})");
    EXPECT_EQ(end_event(status(9)),
              R"({"event":{"end":{"exitCode":-1,"status":"signal: killed","error":"signal: killed"}}})");
    EXPECT_EQ(keepalive_event(), R"({"event":{"keepalive":{}}})");
}

TEST(E2bProcess, NobodyIsToldZeroForALostOne)
{
    const auto event = read_event(end_event(ExitStatus::unknown()));
    ASSERT_TRUE(event);
    EXPECT_TRUE(event->ended);
    EXPECT_FALSE(event->exited);
    EXPECT_EQ(event->exit_code, -1);
}

TEST(E2bProcess, WhatOneSideWritesTheOtherReads)
{
    StartRequest request;
    request.process = {.cmd = "sh", .args = {"-c", "x"}, .envs = {{"A", "ü"}}, .cwd = "/"};
    request.pty = PtySize{.columns = 9, .rows = 8};
    request.stdin_open = false;
    const auto back = read_start(start_request(request));
    ASSERT_TRUE(back);
    EXPECT_EQ(back->process.args, request.process.args);
    EXPECT_EQ(back->process.envs, request.process.envs);
    EXPECT_EQ(back->pty->rows, 8);
    const auto event = read_event(data_event(Output::Stderr, std::string("\0\xff", 2)));
    ASSERT_TRUE(event);
    EXPECT_EQ(event->stream, Output::Stderr);
    EXPECT_EQ(event->bytes, std::string("\0\xff", 2));
}

TEST(E2bProcess, AnEndIsWhatTheKernelSaidOnBothSides)
{
    for (const int raw : {0, 7 << 8, 255 << 8, SIGKILL, SIGTERM, SIGSEGV, SIGUSR1, SIGINT, 40}) {
        const auto event = read_event(end_event(status(raw)));
        ASSERT_TRUE(event);
        EXPECT_EQ(wait_status(*event), raw);
    }
    EXPECT_FALSE(wait_status(*read_event(end_event(ExitStatus::unknown()))));
    EXPECT_FALSE(wait_status(*read_event(R"({"event":{"end":{"exited":true,"exitCode":256}}})")));
    EXPECT_FALSE(wait_status(*read_event(R"({"event":{"end":{"status":"signal: invented"}}})")));
    EXPECT_FALSE(wait_status(*read_event(R"({"event":{"end":{}}})")));
    EXPECT_EQ(wait_status(*read_event(R"x({"event":{"end":{"status":"signal: aborted (core dumped)"}}})x")),
              SIGABRT | 0x80);
}

TEST(E2bProcess, AListTellsItsNumbers)
{
    const auto pids =
        read_pids(list_answer({{.config = {}, .pid = 4, .tag = {}}, {.config = {}, .pid = 9, .tag = "x"}}));
    ASSERT_TRUE(pids);
    EXPECT_EQ(*pids, (std::vector<std::uint32_t>{4, 9}));
    EXPECT_TRUE(read_pids("{}")->empty());
    EXPECT_FALSE(read_pids("[]"));
}

} // namespace
} // namespace berth::e2b
