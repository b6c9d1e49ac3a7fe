#include "bench/own_data.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/ids.hpp"
#include "base/unique_fd.hpp"
#include "sys/remove_tree.hpp"

namespace berth::bench {

Result<OwnData> OwnData::make(const Context& context, std::string_view name)
{
    OwnData out(fmt::format("{}/bench-{}-{}", context.state().path(), name, random_hex(4)));
    if (::mkdir(out.path_.c_str(), 0700) != 0) return fail_errno("creating {}", out.path_);
    return out;
}

OwnData::~OwnData()
{
    if (path_.empty()) return;
    const auto slash = path_.rfind('/');
    const UniqueFd above(::open(path_.substr(0, slash).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    (void)sys::remove_tree(above.get(), path_.substr(slash + 1));
}

} // namespace berth::bench
