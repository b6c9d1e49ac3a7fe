#include <CLI/CLI.hpp>

#include "base/brief.hpp"
#include "cli/session.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"
#include "server/gate/keys.hpp"

namespace berth::cli {

namespace {

struct KeyOptions {
    Common common;
    std::string tenant = std::string(gate::Keys::kDefaultTenant);
    std::string note;
    std::string id;
};

json::Object key_json(const gate::Key& key)
{
    json::Object out;
    out["id"] = key.id;
    out["tenant"] = key.tenant;
    out["note"] = key.note;
    out["created"] = rfc3339(key.created);
    return out;
}

Result<gate::Keys> keys_of(const KeyOptions& o)
{
    BERTH_TRY(const auto berth, open_berth(o.common)); // makes the directory, and looks at who may enter it
    return gate::Keys(berth->data());
}

Result<int> add(const KeyOptions& o)
{
    BERTH_TRY(auto keys, keys_of(o));
    BERTH_TRY(const auto secret, keys.add(o.tenant, o.note));
    if (!o.common.json) return print(secret + "\n");
    json::Object out;
    out["id"] = gate::Keys::id_of(secret);
    out["key"] = secret;
    out["tenant"] = o.tenant;
    return print_document(out);
}

Result<int> list(const KeyOptions& o)
{
    BERTH_TRY(const auto keys, keys_of(o));
    BERTH_TRY(const auto all, keys.list());
    if (o.common.json) {
        json::Array list;
        for (const auto& key : all) list.emplace_back(key_json(key));
        json::Object out;
        out["keys"] = std::move(list);
        return print_document(out);
    }
    Table table({"ID", "TENANT", "CREATED", "NOTE"});
    for (const auto& key : all)
        table.add({cell(key.id), cell(key.tenant), cell(rfc3339(key.created)), cell(key.note)});
    return print(table.text());
}

Result<int> remove(const KeyOptions& o)
{
    BERTH_TRY(auto keys, keys_of(o));
    BERTH_TRY(const auto gone, keys.remove(o.id));
    if (o.common.json) return print_document(key_json(gone));
    say("removed key " + gone.id);
    return 0;
}

} // namespace

int key_verb(int argc, char** argv)
{
    CLI::App app(
        "Make, list and remove API keys of berth serve. A key belongs to a tenant; tenants do not see\n"
        "each other's sandboxes. A running server knows a change at once.\n\n"
        "Example:\n  berth key add --tenant alice\n",
        "berth key");
    KeyOptions o;
    auto* add_word = app.add_subcommand("add", "Make one and print it; it is not shown again");
    add_word->add_option("--tenant", o.tenant, "Whose it is (default: default)")->type_name("NAME");
    add_word->add_option("--note", o.note, "What it is for")->type_name("TEXT");
    auto* ls_word = app.add_subcommand("ls", "List them, without the keys themselves");
    auto* rm_word = app.add_subcommand("rm", "Remove one by its id");
    rm_word->add_option("id", o.id, "Its id, as berth key ls shows it")->type_name("ID")->required();
    for (auto* word : {add_word, ls_word, rm_word}) add_common(*word, o.common);
    app.require_subcommand(1);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, o.common, argc, argv)) return *done;
    const auto code = *add_word ? add(o) : *ls_word ? list(o) : remove(o);
    return code ? *code : report(code.error(), o.common);
}

} // namespace berth::cli
