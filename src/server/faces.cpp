#include "server/faces.hpp"

#include "server/codex/codex_face.hpp"
#include "server/e2b/e2b_face.hpp"
#include "server/own/own_face.hpp"

namespace berth::server {

std::vector<std::unique_ptr<gate::Face>> make_faces(gate::Ground& ground, codex::Ceiling ceiling,
                                                    e2b::Settings e2b)
{
    std::vector<std::unique_ptr<gate::Face>> out;
    out.push_back(codex::make_face(ground, std::move(ceiling)));
    out.push_back(e2b::make_face(ground, std::move(e2b)));
    out.push_back(own::make_face(ground));
    return out;
}

} // namespace berth::server
