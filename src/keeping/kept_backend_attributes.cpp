#include <fcntl.h>
#include <sys/stat.h>

#include "base/strings.hpp"
#include "keeping/kept_backend.hpp"
#include "sys/file_attributes.hpp"
#include "sys/sandbox_files_resolve.hpp"

namespace berth::keeping {

Task<Result<std::map<std::string, FileAttributes::Set>>>
KeptBackend::read_attributes(SandboxHandle sandbox, FilePath directory, std::vector<std::string> names,
                             std::string prefix)
{
    using Answer = Result<std::map<std::string, FileAttributes::Set>>;
    BERTH_CO_TRY(const auto files, co_await files_of(std::move(sandbox), directory.user));
    co_return co_await pool_.call([&]() -> Answer {
        return files.run([&](int root) { return sys::read_attributes(root, directory.path, names, prefix); });
    });
}

Task<Status> KeptBackend::write_attributes(SandboxHandle sandbox, FilePath file, std::string prefix,
                                           Set attributes)
{
    BERTH_CO_TRY(const auto files, co_await files_of(std::move(sandbox), file.user));
    co_return co_await pool_.call([&]() -> Status {
        return files.run(
            [&](int root) { return sys::write_attributes(root, file.path, prefix, attributes); });
    });
}

Task<Result<unsigned>> KeptBackend::read_type(SandboxHandle sandbox, FilePath file)
{
    BERTH_CO_TRY(const auto files, co_await files_of(std::move(sandbox), file.user));
    co_return co_await pool_.call([&]() -> Result<unsigned> {
        return files.run([&](int root) -> Result<unsigned> {
            BERTH_TRY(const auto object, sys::resolve_in(root, file.path, O_NOFOLLOW));
            struct stat st{};
            if (::fstat(object.get(), &st) != 0) return fail_errno("looking at {}", printable(file.path));
            return st.st_mode & S_IFMT;
        });
    });
}

} // namespace berth::keeping
