#include "protocol/e2b/filesystem.hpp"

#include "base/brief.hpp"
#include "protocol/e2b/fields.hpp"

namespace berth::e2b {

namespace {

std::string_view type_name(FileType type)
{
    switch (type) {
    case FileType::File: return "FILE_TYPE_FILE";
    case FileType::Directory: return "FILE_TYPE_DIRECTORY";
    case FileType::Symlink: return "FILE_TYPE_SYMLINK";
    case FileType::Unspecified: break;
    }
    return "FILE_TYPE_UNSPECIFIED";
}

std::string_view event_name(WatchEvent type)
{
    switch (type) {
    case WatchEvent::Create: return "EVENT_TYPE_CREATE";
    case WatchEvent::Write: return "EVENT_TYPE_WRITE";
    case WatchEvent::Remove: return "EVENT_TYPE_REMOVE";
    case WatchEvent::Rename: return "EVENT_TYPE_RENAME";
    case WatchEvent::Chmod: return "EVENT_TYPE_CHMOD";
    }
    return "EVENT_TYPE_UNSPECIFIED";
}

json::Object entry_json(const EntryInfo& entry)
{
    json::Object out;
    out["name"] = entry.name;
    if (entry.type != FileType::Unspecified) out["type"] = type_name(entry.type);
    out["path"] = entry.path;
    if (entry.size != 0) out["size"] = std::to_string(entry.size);
    if (entry.mode != 0) out["mode"] = entry.mode;
    out["permissions"] = entry.permissions;
    out["owner"] = entry.owner;
    out["group"] = entry.group;
    out["modifiedTime"] = rfc3339(entry.modified);
    if (entry.symlink_target) out["symlinkTarget"] = *entry.symlink_target;
    if (!entry.metadata.empty()) {
        json::Object metadata;
        for (const auto& [name, value] : entry.metadata) metadata[name] = value;
        out["metadata"] = std::move(metadata);
    }
    return out;
}

json::Object event_json(const FilesystemEvent& event)
{
    json::Object out;
    out["name"] = event.name;
    out["type"] = event_name(event.type);
    if (event.entry) out["entry"] = entry_json(*event.entry);
    return out;
}

} // namespace

Result<FilesystemCall> read_filesystem_call(std::string_view text)
{
    BERTH_TRY(const auto document, json::parse(text));
    const json::Reader reader(document);
    if (!document.is_object()) return reader.refuse("expected an object");
    FilesystemCall out;
    BERTH_TRY(out.path, fields::text(reader, "path"));
    BERTH_TRY(out.source, fields::text(reader, "source"));
    BERTH_TRY(out.destination, fields::text(reader, "destination"));
    BERTH_TRY(const auto depth, fields::whole(reader, "depth", 0, UINT32_MAX));
    out.depth = depth == 0 ? 1 : static_cast<std::uint32_t>(depth);
    BERTH_TRY(out.recursive, fields::flag(reader, "recursive"));
    BERTH_TRY(out.include_entry, fields::flag(reader, "includeEntry"));
    BERTH_TRY(out.watcher, fields::text(reader, "watcherId"));
    return out;
}

std::string permission_text(std::string_view kind, unsigned mode)
{
    std::string out(kind);
    if ((mode & 04000) != 0) out += 'u';
    if ((mode & 02000) != 0) out += 'g';
    if ((mode & 01000) != 0) out += 't';
    constexpr std::string_view letters = "rwxrwxrwx";
    for (unsigned i = 0; i < 9; ++i) out += (mode >> (8 - i) & 1) != 0 ? letters[i] : '-';
    return out;
}

std::string entry_answer(const EntryInfo& entry)
{
    json::Object out;
    out["entry"] = entry_json(entry);
    return json::dump(out);
}

std::string entries_answer(const std::vector<EntryInfo>& entries)
{
    json::Object out;
    json::Array list;
    for (const auto& entry : entries) list.emplace_back(entry_json(entry));
    if (!list.empty()) out["entries"] = std::move(list);
    return json::dump(out);
}

std::string watch_start() { return R"({"start":{}})"; }
std::string watch_keepalive() { return R"({"keepalive":{}})"; }

std::string watch_event(const FilesystemEvent& event)
{
    json::Object out;
    out["filesystem"] = event_json(event);
    return json::dump(out);
}

std::string watcher_answer(std::string_view watcher)
{
    json::Object out;
    out["watcherId"] = watcher;
    return json::dump(out);
}

std::string events_answer(const std::vector<FilesystemEvent>& events)
{
    json::Object out;
    json::Array list;
    for (const auto& event : events) list.emplace_back(event_json(event));
    if (!list.empty()) out["events"] = std::move(list);
    return json::dump(out);
}

std::string watch_request(std::string_view path, bool recursive)
{
    json::Object out;
    out["path"] = path;
    out["recursive"] = recursive;
    return json::dump(out);
}

std::string path_request(std::string_view path)
{
    json::Object out;
    out["path"] = path;
    return json::dump(out);
}

Result<WatchMessage> read_watch_message(std::string_view text)
{
    BERTH_TRY(const auto document, json::parse(text));
    const json::Reader reader(document);
    WatchMessage out;
    BERTH_TRY(const auto start, fields::find(reader, "start"));
    out.started = start.has_value();
    BERTH_TRY(const auto told, fields::find(reader, "filesystem"));
    if (!told) return out;
    FilesystemEvent event;
    BERTH_TRY(event.name, fields::text(*told, "name"));
    BERTH_TRY(const auto type, fields::find(*told, "type"));
    if (!type) return out;
    std::int64_t number = 0;
    if (type->value().is_string()) {
        BERTH_TRY(const auto word, type->string());
        for (const auto one : {WatchEvent::Create, WatchEvent::Write, WatchEvent::Remove, WatchEvent::Rename,
                               WatchEvent::Chmod})
            if (event_name(one) == word) number = static_cast<int>(one);
    } else {
        BERTH_TRY(number, type->integer(INT32_MIN, INT32_MAX));
    }
    if (number < static_cast<int>(WatchEvent::Create) || number > static_cast<int>(WatchEvent::Chmod))
        return out;
    event.type = static_cast<WatchEvent>(number);
    out.event = std::move(event);
    return out;
}

} // namespace berth::e2b
