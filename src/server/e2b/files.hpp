#pragma once

#include "server/e2b/envd.hpp"

namespace berth::e2b {

/// envd's /files: contents in and out.
class Files {
public:
    explicit Files(Sandboxes& sandboxes) : sandboxes_(sandboxes) {}

    /// A request for a file that names no sandbox: a signed link.
    [[nodiscard]] static bool takes_unnamed(const http::RequestHead& head);
    /// The sandbox whose token made the signature; null when there is none.
    [[nodiscard]] EntryPtr signer_of(const http::RequestHead& head) const;

    Task<void> answer(EnvdCall& call);

private:
    Task<void> download(EnvdCall& call);
    Task<void> upload(EnvdCall& call);

    Sandboxes& sandboxes_;
};

} // namespace berth::e2b
