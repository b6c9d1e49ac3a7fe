#include "backend/registry.hpp"

#include "backend/local/local_backend.hpp"

namespace berth {

const BackendRegistry& backends()
{
    static const BackendRegistry all = [] {
        BackendRegistry list;
        list.add("local", local::LocalBackend::open);
        return list;
    }();
    return all;
}

} // namespace berth
