#pragma once

#include "server/e2b/volume_files.hpp"
#include "server/e2b/volumes.hpp"

namespace berth::e2b {

/// The files of volumes over HTTP, for whoever has a volume's token.
class VolumeContent {
public:
    explicit VolumeContent(Volumes& volumes) : volumes_(volumes) {}

    [[nodiscard]] static bool takes(const http::RequestHead& head);
    Task<void> answer(http::Exchange& exchange);

private:
    struct Call;
    Task<Result<http::Response>> about_path(Call& call);
    Task<Result<http::Response>> about_directory(Call& call);
    Task<Result<http::Response>> put_file(Call& call);
    Task<Status> get_file(Call& call);

    Volumes& volumes_;
};

} // namespace berth::e2b
