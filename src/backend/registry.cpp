#include "backend/registry.hpp"

#include "backend/docker/docker_backend.hpp"
#include "backend/e2b/e2b_backend.hpp"
#include "backend/exec_server/exec_server_backend.hpp"
#include "backend/local/local_backend.hpp"

namespace berth {

const BackendRegistry& backends()
{
    static const BackendRegistry all = [] {
        BackendRegistry list;
        list.add("docker", docker::DockerBackend::open);
        list.add("e2b", e2b_client::E2bBackend::open);
        list.add("exec-server", exec_server::ExecServerBackend::open);
        list.add("local", local::LocalBackend::open);
        return list;
    }();
    return all;
}

} // namespace berth
