#include <gtest/gtest.h>

#include "protocol/e2b/filesystem.hpp"
#include "protocol/e2b/multipart.hpp"
#include "protocol/e2b/signature.hpp"

namespace berth::e2b {
namespace {

TEST(E2bSignature, IsTheKnownOne)
{
    EXPECT_EQ(signature({.path = "hello.txt", .use = FileUse::Read, .user = "user"},
                        "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0"),
              "v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E");
}

TEST(E2bSignature, DiffersWithEachPart)
{
    const SignedLink link{.path = "a", .use = FileUse::Read, .user = "u", .expiration = "5"};
    const auto good = signature(link, "t");
    auto other = link;
    other.path = "b";
    EXPECT_NE(signature(other, "t"), good);
    other = link;
    other.use = FileUse::Write;
    EXPECT_NE(signature(other, "t"), good);
    other = link;
    other.expiration = "6";
    EXPECT_NE(signature(other, "t"), good);
    EXPECT_NE(signature(link, "T"), good);
}

struct Part {
    std::string name, filename, bytes;
    bool operator==(const Part&) const = default;
};

/// All parts, the body fed in pieces of a size.
Result<std::vector<Part>> parts_of(const std::string& body, std::size_t piece)
{
    MultipartReader reader("XX");
    std::vector<Part> out;
    for (std::size_t at = 0; at < body.size(); at += piece) {
        reader.feed(std::string_view(body).substr(at, piece));
        for (;;) {
            BERTH_TRY(const auto event, reader.next());
            if (!event) break;
            if (event->kind == MultipartReader::Event::Kind::Begin)
                out.push_back({event->name, event->filename, ""});
            if (event->kind == MultipartReader::Event::Kind::Data) out.back().bytes += event->bytes;
        }
    }
    if (!reader.done()) return fail(Code::Invalid, "cut off");
    return out;
}

const std::string kForm = "--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"dir/a.txt\"\r\n"
                          "Content-Type: text/plain\r\n\r\nhello\r\n--X not yet\r\n"
                          "--XX\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n"
                          "\r\n--XX--\r\n";

TEST(E2bMultipart, PartsComeWholeHoweverTheBytesCome)
{
    const std::vector<Part> expected{{"file", "dir/a.txt", "hello\r\n--X not yet"}, {"file", "", ""}};
    for (std::size_t piece = 1; piece <= kForm.size(); ++piece) {
        const auto parts = parts_of(kForm, piece);
        ASSERT_TRUE(parts) << piece << ": " << parts.error().line();
        EXPECT_EQ(*parts, expected) << piece;
    }
}

TEST(E2bMultipart, WhatIsInQuotesIsNoParameter)
{
    const auto parts =
        parts_of("--XX\r\nContent-Disposition: form-data; filename=\"a; name=b\"; name=\"file\"\r\n\r\n"
                 "1\r\n--XX\r\nContent-Disposition: form-data; filename=\"\\\"; name=c\"; name=file\r\n\r\n"
                 "2\r\n--XX--\r\n",
                 1000);
    ASSERT_TRUE(parts);
    const std::vector<Part> expected{{"file", "a; name=b", "1"}, {"file", "\"; name=c", "2"}};
    EXPECT_EQ(*parts, expected);
}

TEST(E2bMultipart, ANameThatIsNotAsciiMayBeWrittenInAnother)
{
    const auto name = [](const std::string& written) {
        const auto parts = parts_of("--XX\r\nContent-Disposition: form-data; name=\"file\"; " + written +
                                        "\r\n\r\n1\r\n--XX--\r\n",
                                    1000);
        return parts && parts->size() == 1 ? parts->front().filename : "no form";
    };
    EXPECT_EQ(name("filename*=utf-8''dir/na%C3%AFve.txt"), "dir/na\u00efve.txt");
    EXPECT_EQ(name("filename=\"plain\"; filename*=UTF-8'fr'%C3%A9"), "\u00e9");
    for (const auto* const bad : {"utf-8", "utf-8'", "latin-1''%E9", "utf-8''%E"})
        EXPECT_EQ(name(fmt::format("filename*={}; filename=plain", bad)), "plain") << bad;
}

TEST(E2bMultipart, AFormThatIsCutIsNotDone)
{
    for (std::size_t size = 0; size + 4 < kForm.size(); ++size)
        EXPECT_FALSE(parts_of(kForm.substr(0, size), 7)) << size;
}

TEST(E2bMultipart, BoundariesAreQuotedOrNot)
{
    EXPECT_EQ(boundary_of("multipart/form-data; boundary=----formdata-undici-012"),
              "----formdata-undici-012");
    EXPECT_EQ(boundary_of("Multipart/Form-Data; charset=x; Boundary=\"a b\""), "a b");
    EXPECT_FALSE(boundary_of("multipart/form-data"));
    EXPECT_FALSE(boundary_of("application/json; boundary=x"));
}

TEST(E2bFilesystem, PermissionsAreLetters)
{
    EXPECT_EQ(permission_text("d", 0755), "drwxr-xr-x");
    EXPECT_EQ(permission_text("L", 0777), "Lrwxrwxrwx");
    EXPECT_EQ(permission_text("d", 01777), "dtrwxrwxrwx");
    EXPECT_EQ(permission_text("-", 04750), "-urwxr-x---");
}

TEST(E2bFilesystem, AnEntryIsWhatTheSdkReads)
{
    EntryInfo entry{
        .name = "bar.txt", .type = FileType::File, .path = "/home/user/bar.txt", .size = 5, .mode = 0644};
    entry.permissions = "-rw-r--r--";
    entry.owner = entry.group = "user";
    EXPECT_EQ(
        entry_answer(entry),
        R"({"entry":{"name":"bar.txt","type":"FILE_TYPE_FILE","path":"/home/user/bar.txt","size":"5","mode":420,)"
        R"("permissions":"-rw-r--r--","owner":"user","group":"user","modifiedTime":"1970-01-01T00:00:00.000Z"}})");
}

TEST(E2bFilesystem, CallsAcceptBothSpellings)
{
    EXPECT_TRUE(read_filesystem_call(R"({"path":"/x","includeEntry":true})")->include_entry);
    EXPECT_TRUE(read_filesystem_call(R"({"path":"/x","include_entry":true})")->include_entry);
    EXPECT_EQ(read_filesystem_call(R"({"path":"/x","depth":0})")->depth, 1u);
    EXPECT_FALSE(read_filesystem_call("[]"));
}

} // namespace
} // namespace berth::e2b
