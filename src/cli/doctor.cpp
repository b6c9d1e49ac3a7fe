#include <fcntl.h>
#include <unistd.h>

#include <iostream>

#include <CLI/CLI.hpp>

#include "backend/local/doctor.hpp"
#include "base/brief.hpp"
#include "base/json.hpp"
#include "base/unique_fd.hpp"
#include "berth/ballast.hpp"
#include "berth/berth.hpp"
#include "cli/app.hpp"
#include "cli/verbs.hpp"
#include "server/gate/keys.hpp"

namespace berth::cli {

namespace {

int clean(const Common& common, const std::string& path)
{
    const auto state = local::StateDir::open(path);
    if (!state) return report(state.error(), common);
    const auto removed = local::clean(*state);
    if (!removed) return report(removed.error(), common);
    if (common.json) {
        json::Array list;
        for (const auto& what : *removed) list.emplace_back(what);
        json::Object document;
        document["removed"] = std::move(list);
        std::cout << json::dump(document) << "\n";
    } else {
        for (const auto& what : *removed) std::cout << "removed " << what << "\n";
        if (removed->empty()) std::cout << "nothing to clean\n";
    }
    return 0;
}

using Verdict = local::Finding::Verdict;

local::Finding look_at_space(const std::string& path)
{
    constexpr unsigned long long kNone = 16ull << 20;
    constexpr unsigned long long kLittle = 1ull << 30;
    const auto left = free_bytes(path);
    local::Finding out{.name = "free space", .detail = fmt::format("{} in {}", brief(Bytes{left}), path)};
    if (left >= kLittle) return out;
    out.verdict = left < kNone ? Verdict::Missing : Verdict::Weaker;
    out.remedy = "berth gc; berth snapshots rm SNAP; berth rm REF; or --data DIR on a larger disk";
    return out;
}

local::Finding look_at_directory(const std::string& path)
{
    local::Finding out{.name = "state directory", .detail = path + " can be written"};
    const UniqueFd file(::open(path.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
    const int refused = file ? 0 : errno;
    // A file system without nameless files is not one that cannot be written.
    if (file ? ::pwrite(file.get(), "x", 1, 0) == 1 : refused == EOPNOTSUPP || refused == EISDIR) return out;
    out.verdict = Verdict::Missing;
    out.detail = fmt::format("{} cannot be written: {}", path,
                             std::generic_category().message(file ? errno : refused));
    out.remedy = "make room there, or --data DIR for another";
    return out;
}

local::Finding look_at_store(const std::string& path)
{
    local::Finding out{.name = "store", .detail = "none yet: the first sandbox that is kept makes it"};
    if (::access((path + "/store.db").c_str(), F_OK) != 0) return out;
    const auto read = [&]() -> Result<std::size_t> {
        BERTH_TRY(const auto berth, Berth::open({.data = path, .threads = 1, .room = Room::Reads}));
        BERTH_TRY(const auto all, berth->store().list({.limit = 10'000}));
        return all.size();
    }();
    if (read) {
        out.detail = fmt::format("{} sandboxes in {}/store.db", *read, path);
        return out;
    }
    out.verdict = Verdict::Missing;
    out.detail = read.error().line();
    out.remedy = "what the line above says";
    return out;
}

local::Finding look_at_keys(const std::string& path)
{
    local::Finding out{.name = "api keys"};
    const auto keys = gate::Keys(path).list();
    if (keys) {
        out.detail = keys->empty() ? std::string("none yet: berth serve or berth key add makes one")
                                   : fmt::format("{} in {}/keys.json", keys->size(), path);
        return out;
    }
    out.verdict = Verdict::Missing;
    out.detail = keys.error().line();
    out.remedy =
        fmt::format("mv {}/keys.json {}/keys.json.damaged; berth key add makes new ones", path, path);
    return out;
}

void print(const std::vector<local::Finding>& findings)
{
    for (const auto& finding : findings) {
        std::cout << fmt::format("{:<8} {:<16} {}\n", to_string(finding.verdict), finding.name,
                                 finding.detail);
        if (!finding.remedy.empty()) std::cout << fmt::format("{:<25} -> {}\n", "", finding.remedy);
    }
}

void print_json(const std::vector<local::Finding>& findings)
{
    json::Array list;
    for (const auto& finding : findings) {
        json::Object item;
        item["name"] = finding.name;
        item["verdict"] = std::string_view(to_string(finding.verdict));
        item["detail"] = finding.detail;
        if (!finding.remedy.empty()) item["remedy"] = finding.remedy;
        list.emplace_back(std::move(item));
    }
    json::Object document;
    document["findings"] = std::move(list);
    std::cout << json::dump(document) << "\n";
}

} // namespace

int doctor_verb(int argc, char** argv)
{
    CLI::App app(
        "Tell what works on this machine for this user, what does not, and the command that fixes it.\n\n"
        "Example:\n  berth doctor\n  berth doctor --clean\n",
        "berth doctor");
    Common common;
    bool sweep = false;
    app.add_flag("--clean", sweep, "Remove what killed runs left behind");
    add_common(app, common);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, common, argc, argv)) return *done;
    const auto path = state_path(common);
    if (!path) return report(path.error(), common);
    if (sweep) return clean(common, *path);

    auto findings = local::examine(*path);
    bool well = findings.back().verdict == Verdict::Ok;
    // What keeps sandboxes, where there is a state directory; a whole sandbox stays the last word.
    if (::access(path->c_str(), F_OK) == 0) {
        for (auto& own :
             {look_at_directory(*path), look_at_space(*path), look_at_store(*path), look_at_keys(*path)}) {
            well = well && own.verdict != Verdict::Missing;
            findings.insert(findings.end() - 1, own);
        }
    }
    if (common.json)
        print_json(findings);
    else
        print(findings);
    // What decides is whether a sandbox runs and can be kept; the rest is told.
    return well ? 0 : exit_code(Code::Unsupported);
}

} // namespace berth::cli
