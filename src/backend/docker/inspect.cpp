#include "backend/docker/inspect.hpp"

namespace berth::docker {

Result<Container> inspect_container(const Engine& engine, const std::string& named)
{
    BERTH_TRY(const auto document, engine.get("/containers/" + url_encode(named) + "/json"));
    return parse_container(document);
}

} // namespace berth::docker
