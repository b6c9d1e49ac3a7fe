#include <iostream>

#include <CLI/CLI.hpp>

#include "base/encoding.hpp"
#include "base/json_reader.hpp"
#include "base/strings.hpp"
#include "cli/exec_options.hpp"
#include "cli/input_options.hpp"
#include "cli/session.hpp"
#include "cli/verbs.hpp"
#include "core/exec_reader.hpp"
#include "core/write_id.hpp"
#include "lifecycle/documents.hpp"

namespace berth::cli {

namespace {

constexpr std::size_t kMostBytes = std::size_t{2} << 20; // base64 of it is less than a server takes

Result<std::string> own_input()
{
    std::string out(kMostBytes + 1, '\0');
    std::cin.read(out.data(), static_cast<std::streamsize>(out.size()));
    out.resize(static_cast<std::size_t>(std::cin.gcount()));
    if (out.size() > kMostBytes)
        return fail(Code::Invalid, "more than 2 MiB in one turn: berth cp takes files of any size");
    return out;
}

/// As a shell has it; that it runs on is no failure.
Result<int> exit_code_of(const json::Object& turn)
{
    const json::Value document(turn);
    const json::Reader reader(document);
    BERTH_TRY(const auto running, reader.at("running"));
    BERTH_TRY(const bool on, running.boolean());
    if (on) return 0;
    BERTH_TRY(const auto timed_out, reader.at("timed_out"));
    BERTH_TRY(const bool late, timed_out.boolean());
    if (late) return kTimedOut;
    BERTH_TRY(const auto code, reader.find("code"));
    if (code) {
        BERTH_TRY(const auto number, code->integer(0, 255));
        return static_cast<int>(number);
    }
    BERTH_TRY(const auto signal, reader.find("signal"));
    if (!signal) return kOwnFailure; // nobody knows
    BERTH_TRY(const auto number, signal->integer(1, 127));
    return 128 + static_cast<int>(number);
}

Task<Result<json::Object>> turn(Lifecycle& lifecycle, const InputOptions& o, InputWish wish)
{
    BERTH_CO_TRY(const auto record, co_await lifecycle.find(o.ref));
    BERTH_CO_TRY(const auto exec, co_await lifecycle.find_exec(record, o.exec));
    BERTH_CO_CHECK(has_log(exec));
    BERTH_CO_TRY(const auto answer, co_await yield_write(lifecycle, record, exec.id, wish.next,
                                                         std::move(wish.input), wish.yield));
    co_return documents::yielded(record.id(), answer);
}

Result<int> run(const InputOptions& o)
{
    BERTH_TRY(auto wish, read_input(o));
    const std::size_t sent = wish.input.bytes.size();
    BERTH_TRY(const auto berth, open_berth(o.common));
    BERTH_TRY(const auto told, berth->run(turn(berth->lifecycle(), o, std::move(wish))));
    return tell_turn(o.common, told, sent);
}

} // namespace

void add_input_options(CLI::App& app, InputOptions& o)
{
    app.add_option("sandbox", o.ref, "The sandbox: id, unique prefix, name or key")
        ->type_name("REF")
        ->required();
    app.add_option("exec", o.exec, "The exec: id or unique prefix, as berth inspect shows them")
        ->type_name("EXEC")
        ->required();
    app.add_option("text", o.text, "What to type, as it is; - is our stdin; without it only look")
        ->type_name("TEXT");
    app.add_flag("--enter", o.enter, "A newline behind it");
    app.add_flag("--close", o.close, "Behind it comes the end of the input");
    app.add_option("--from", o.from, "Only what is new: next_seq of the last answer (default: all there is)")
        ->type_name("N");
    app.add_option("--write", o.write, "A number that grows; the same again writes nothing twice")
        ->type_name("N");
    add_yield_options(app, o.yield);
    add_common(app, o.common);
}

Result<InputWish> read_input(const InputOptions& o)
{
    InputWish out;
    BERTH_TRY(out.yield, read_yield(o.yield));
    if (!o.from.empty()) {
        BERTH_TRY(const auto from, parse_int(o.from, 0, 1ll << 52, "--from"));
        out.next = static_cast<std::uint64_t>(from);
    }
    if (!o.write.empty()) {
        BERTH_TRY(const auto write, parse_int(o.write, 1, kMostWrites, "--write"));
        out.input.write = static_cast<std::uint64_t>(write);
    }
    if (o.text == "-") {
        BERTH_TRY(out.input.bytes, own_input());
    } else {
        out.input.bytes = o.text.value_or("");
    }
    if (o.enter) out.input.bytes += '\n';
    out.input.close = o.close;
    return out;
}

Result<int> tell_turn(const Common& common, const json::Object& turn, std::size_t sent)
{
    const json::Value document(turn);
    const json::Reader reader(document);
    BERTH_TRY(auto code, exit_code_of(turn));
    BERTH_TRY(const auto running, reader.at("running"));
    BERTH_TRY(const bool on, running.boolean());
    BERTH_TRY(const auto taken, reader.find("taken"));
    if (taken && on) {
        BERTH_TRY(const auto count, taken->integer(0, INT64_MAX));
        if (static_cast<std::size_t>(count) < sent) code = kOwnFailure;
        if (code != 0 && !common.json)
            say(fmt::format("{} of {} bytes were taken: the command does not read", count, sent));
    }
    if (common.json) {
        std::cout << json::dump(turn) << std::endl;
        return code;
    }
    BERTH_TRY(const auto output, reader.at("output_base64"));
    BERTH_TRY(const auto text, output.string());
    const auto bytes = base64_decode(text);
    if (!bytes) return output.refuse("must be base64");
    std::cout << *bytes << std::flush;
    BERTH_TRY(const auto missing, reader.find("missing_bytes"));
    if (missing) say(missing_in_turn(json::dump(missing->value())));
    BERTH_TRY(const auto cut, reader.find("original_tokens"));
    if (cut) say(fmt::format("about {} tokens of output", json::dump(cut->value())));
    if (on) {
        BERTH_TRY(const auto next, reader.at("next_seq"));
        say("it runs on: --from " + json::dump(next.value()));
    }
    return code;
}

int input_verb(int argc, char** argv)
{
    CLI::App app(
        "Type something into a command that runs, or only look; wait a while, and return with what it\n"
        "printed. The command runs on: nothing here ends it. It must have been started with its input\n"
        "kept open: berth exec -i with --detach or --yield, or -t. The exit code is the command's when\n"
        "it has ended, 0 while it runs on, 125 when berth itself failed.\n\n"
        "Example:\n  berth input mybox exec_01jd7f3 --enter 'print(6 * 7)'\n"
        "  berth input mybox exec_01jd7f3 --from 12 --yield 10s\n",
        "berth input");
    InputOptions o;
    add_input_options(app, o);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, o.common, argc, argv, kOwnFailure)) return *done;
    const auto code = run(o);
    return code ? *code : report(code.error(), o.common, kOwnFailure);
}

} // namespace berth::cli
