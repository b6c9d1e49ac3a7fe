// The prober's answers come out of the sandbox: whoever is hostile inside, and there before the proof, may
// have made them up. They are bounded, read strictly, and an answer that is missing proves nothing.

#include "prove/prove.hpp"

#include <boost/asio/this_coro.hpp>

#include <algorithm>
#include <map>

#include "base/ids.hpp"
#include "base/strings.hpp"
#include "core/admit.hpp"
#include "core/exec_programs.hpp"
#include "prove/bed.hpp"
#include "prove/canary.hpp"
#include "prove/prober_image.hpp"

namespace berth::prove {

namespace {

using namespace std::chrono_literals;

constexpr Bytes kMostOutput = 1_MiB;
constexpr auto kTimeout = 150s;
constexpr auto kAll = 6min; ///< a proof in all

std::string escaped(std::string_view word)
{
    std::string out;
    for (const char c : word) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < ' ' || c == '%' || byte == 127)
            out += fmt::format("%{:02X}", byte);
        else
            out.push_back(c);
    }
    return out;
}

std::string line_of(std::string_view number, const std::vector<std::string>& act)
{
    std::string out(number);
    for (const auto& word : act) out += "\t" + escaped(word);
    return out + "\n";
}

struct Answer {
    std::string outcome;
    bool sure = false;
    std::string text;
};
/// By number; "facts" has what the prober is.
struct Answers {
    std::map<std::string, Answer> of;
    std::vector<std::string> facts;
    bool whole = false; ///< it came to its end
    bool twice = false; ///< somebody else answered too
};

/// Lines without the word that was handed over are not the prober's.
Answers read_answers(const std::string& text, const std::string& nonce)
{
    Answers out;
    for (const auto& line : split(text, '\n')) {
        auto fields = split(line, '\t');
        if (fields.size() < 2 || fields[0] != nonce) continue;
        fields.erase(fields.begin());
        if (fields[0] == "end") {
            out.whole = true;
        } else if (fields.size() == 6 && fields[0] == "facts") {
            out.twice |= !out.facts.empty();
            out.facts.assign(fields.begin() + 1, fields.end());
        } else if (fields.size() == 4 && fields[0] != "sweep") {
            out.twice |=
                !out.of.try_emplace(fields[0], Answer{fields[1], fields[2] == "1", printable(fields[3], 200)})
                     .second;
        }
    }
    return out;
}

bool names_root(std::string_view user)
{
    const auto name = user.substr(0, user.find(':'));
    return name == "root" || name == "0";
}

Tried judge(const Probe& probe, const Facts& facts, const Answer* answer)
{
    Tried out{.rule = probe.rule,
              .probe = probe.name,
              .must = probe.must,
              .user = facts.user,
              .verdict = Verdict::Unclear,
              .sure = false,
              .saw = "no answer"};
    if (answer == nullptr) return out;
    out.saw = answer->text;
    out.sure = answer->sure;
    const bool must_pass = probe.must == Must::Pass;
    const bool otherwise = answer->outcome == (must_pass ? "refused" : "permitted");
    if (otherwise && probe.only_told)
        out.verdict = Verdict::Absent;
    else if (answer->outcome == "permitted")
        out.verdict = must_pass ? Verdict::Held : Verdict::NotHeld;
    else if (answer->outcome == "refused")
        out.verdict = must_pass ? Verdict::NotHeld : Verdict::Held;
    else if (answer->outcome == "absent")
        out.verdict = probe.absent_is_refusal ? Verdict::Held : Verdict::Absent;
    return out;
}

class Proof {
public:
    Proof(Backend& backend, SandboxHandle sandbox, SandboxSpec spec)
        : backend_(backend), sandbox_(std::move(sandbox)), spec_(std::move(spec)),
          have_(backend.capabilities())
    {
    }

    Task<Status> run(const Bait& bait, Receipt& receipt)
    {
        BERTH_CO_TRY(const auto image, make_prober_image());
        image_ = image.get();
        if (auto* const tells = dynamic_cast<TellsTerrain*>(&backend_)) {
            BERTH_CO_TRY(terrain_, co_await tells->terrain(sandbox_));
        }
        BERTH_CO_TRY(const auto execs, co_await backend_.execs(sandbox_));
        Load load = Load::Whole;
        for (const auto& exec : execs)
            if (exec.running) load = Load::Light;
        BERTH_CO_CHECK(co_await as_user(bait, load, spec_.user, true, receipt));
        if (names_root(spec_.user)) co_return Status{};
        if (have_.can(Operation::Users))
            co_return co_await as_user(bait, Load::Light, "root", false, receipt);
        receipt.untried.push_back({"everything, as root", "no command can be run as another user here"});
        co_return Status{};
    }

private:
    Task<Status> as_user(const Bait& bait, Load load, std::string user, bool first, Receipt& receipt)
    {
        const std::string ask = "0\tfacts\n";
        BERTH_CO_TRY(const auto who, co_await talk(user, ask));
        Facts facts{.user = user};
        if (who.facts.size() != 5)
            co_return fail(Code::Unavailable, "the prober did not say as whom it runs");
        BERTH_CO_TRY(const auto uid, parse_int(who.facts[0], 0, UINT32_MAX, "user"));
        facts.uid = static_cast<std::uint32_t>(uid);
        facts.kernel = printable(who.facts[2], 100);
        facts.machine = printable(who.facts[3], 40);
        if (first) {
            receipt.kernel = fmt::format("{} {}", facts.kernel, facts.machine);
            // What an ended command left behind would starve as well as one that runs.
            if (who.facts[1] != "0") load = Load::Light;
            // The backend's own word, unless the specification has another.
            if (who.facts[4].starts_with('/') && !spec_.env.contains("HOME")) home_ = who.facts[4];
        }
        facts.home = home_; // rules are bound to the home of the sandbox's user, whoever asks
        const Ground ground{
            .spec = spec_, .have = have_, .bait = bait, .facts = facts, .load = load, .terrain = terrain_};
        auto made = first ? plan(ground) : plan_for_another_user(ground);
        if (!made) co_return std::unexpected(std::move(made).error());
        const std::string token = random_hex(6);
        std::string input = line_of("0", {"token", token});
        for (std::size_t i = 0; i < made->probes.size(); ++i)
            input += line_of(std::to_string(i + 1), made->probes[i].act);
        std::string clean;
        for (const auto& place : made->scratch) clean += line_of("sweep", {"sweep", place});
        Bed bed(backend_, sandbox_);
        if (auto put = co_await furnish(bed, *made, bait.word); !put) {
            co_await bed.clear();
            co_return std::unexpected(std::move(put).error().while_doing("putting in what is denied"));
        }
        auto answers = co_await talk(user, input + clean);
        co_await bed.clear();
        // One that was killed half-way may have left something behind.
        if (!answers || !answers->whole) (void)co_await talk(user, line_of("0", {"token", token}) + clean);
        if (!answers) co_return std::unexpected(std::move(answers).error());
        for (std::size_t i = 0; i < made->probes.size(); ++i) {
            const auto found = answers->of.find(std::to_string(i + 1));
            const auto& probe = made->probes[i];
            if (found != answers->of.end() && found->second.outcome == "untried") {
                receipt.untried.push_back(
                    {probe.rule, fmt::format("{} as {}: {}", probe.name, facts.user, found->second.text)});
                continue;
            }
            auto tried = judge(probe, facts, found == answers->of.end() ? nullptr : &found->second);
            if (made->probes[i].of_this_machine && elsewhere(have_)) tried.sure = false;
            receipt.probes.push_back(std::move(tried));
        }
        receipt.untried.insert(receipt.untried.end(), made->untried.begin(), made->untried.end());
        co_return Status{};
    }

    static Task<Status> furnish(Bed& bed, const Plan& plan, const std::string& word)
    {
        for (const auto& path : plan.planted) BERTH_CO_CHECK(co_await bed.plant(path, word));
        for (const auto& path : plan.spots) BERTH_CO_CHECK(co_await bed.make_above(path));
        co_return Status{};
    }

    /// One run of the prober: what it said. It comes as a descriptor where the backend takes one; else it is
    /// put in under a name that nobody knew before. It is never looked for.
    Task<Result<Answers>> talk(std::string user, std::string input)
    {
        const ExecSpec exec = exec_as(user);
        if (takes_programs(backend_.name())) co_return co_await talk_to(exec, std::move(input));
        BERTH_CO_CHECK(co_await put_in(exec.argv[0], exec.user));
        auto answers = co_await talk_to(exec, std::move(input));
        const FilePath file{.path = exec.argv[0], .user = exec.user};
        (void)co_await backend_.remove_file(sandbox_, file, RemoveTree::No);
        co_return answers;
    }

    [[nodiscard]] ExecSpec exec_as(const std::string& user) const
    {
        ExecSpec exec;
        exec.id = make_exec_id(system_clock());
        exec.argv = {"/tmp/.berth-prober-" + random_hex(16)};
        exec.cwd = "/";
        exec.user = user == spec_.user ? std::string{} : user;
        exec.input = ExecSpec::Stdin::Open;
        const auto left = until_ - system_clock().steady();
        exec.timeout = std::clamp(std::chrono::duration_cast<std::chrono::milliseconds>(left),
                                  std::chrono::milliseconds(1), std::chrono::milliseconds(kTimeout));
        exec.log_limit = kMostOutput;
        return exec;
    }

    Task<Result<Answers>> talk_to(ExecSpec exec, std::string input)
    {
        std::string output;
        RunStreams streams;
        const std::string nonce = random_hex(32);
        streams.input = line_of("0", {"nonce", nonce}) + std::move(input);
        streams.on_event = [&](const ExecEvent& event) {
            if (event.kind == ExecEvent::Kind::Stdout && output.size() < kMostOutput.count)
                output += event.bytes;
        };
        const GivenProgram program(exec.id, image_);
        auto started = co_await backend_.exec(sandbox_, exec);
        if (started) {
            const auto ended = co_await backend_.follow(sandbox_, exec, std::move(streams));
            if (!ended) started = std::unexpected(ended.error());
        }
        auto answers = read_answers(output, nonce);
        if (!started) co_return std::unexpected(std::move(started).error().while_doing("running the prober"));
        if (takes_programs(backend_.name()) && !program.taken())
            co_return fail(Code::Internal, "backend {} did not take the prober", backend_.name());
        if (answers.twice) co_return fail(Code::Denied, "somebody else answered in the prober's name");
        if (system_clock().steady() >= until_)
            co_return fail(Code::DeadlineExceeded, "the proof took longer than {} minutes", kAll.count());
        co_return answers;
    }

    /// Into the sandbox, for as long as it runs: this backend can only start what lies there.
    Task<Status> put_in(std::string path, std::string user)
    {
        BERTH_CO_TRY(auto image, make_prober_image());
        FilePath file{.path = std::move(path), .user = std::move(user)};
        FileContents contents{.source = std::move(image), .limit = 16_MiB, .mode = 0755};
        auto put = co_await backend_.fill_file(sandbox_, file, std::move(contents));
        if (!put) co_return std::unexpected(std::move(put).error().while_doing("putting the prober in"));
        co_return put;
    }

    Backend& backend_;
    SandboxHandle sandbox_;
    SandboxSpec spec_;
    Capabilities have_;
    Terrain terrain_;
    int image_ = -1;
    std::string home_; ///< of the sandbox's user; empty: not known
    SteadyTime until_ = system_clock().steady() + kAll;
};

} // namespace

Task<Result<Receipt>> prove(Backend& backend, SandboxHandle sandbox, SandboxSpec spec, Wish wish)
{
    Receipt receipt;
    receipt.id = "rcpt_" + make_bare_id(system_clock());
    receipt.sandbox = wish.sandbox;
    receipt.generation = wish.generation;
    receipt.backend = backend.name();
    receipt.policy = spec.policy.name;
    receipt.policy_hash = policy_hash(spec.policy);
    receipt.time = system_clock().now();
    const auto holds = backend.capabilities().holds;
    for (auto& line : policy::explain(policy::demands(spec.policy, accepted_tier(holds)), holds))
        receipt.rules.push_back({std::move(line.demand.why), line.holding.tier, std::move(line.holding.how)});
    BERTH_CO_TRY(const auto canary, Canary::put_up(wish.data));
    Proof proof(backend, std::move(sandbox), std::move(spec));
    BERTH_CO_CHECK(co_await proof.run(canary.bait(), receipt));
    tell_hollow_rules(receipt);
    co_return receipt;
}

} // namespace berth::prove
