// An authority of this machine's own. Its key never leaves the state directory, and what it signs is only
// believed by clients that were given its certificate.

#include "server/gate/self_signed.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <unistd.h>

#include <memory>

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "base/io.hpp"

namespace berth::gate {

namespace {

template <auto free> struct Free {
    template <class T> void operator()(T* object) const { free(object); }
};
using KeyPtr = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using CertPtr = std::unique_ptr<X509, Free<X509_free>>;
using BioPtr = std::unique_ptr<BIO, Free<BIO_free>>;

constexpr long kAuthorityDays = 3650;
constexpr long kServerDays = 397; // the most that clients accept

std::unexpected<Error> broken(std::string_view what) { return fail(Code::Internal, "OpenSSL: {}", what); }

std::string text_of(BIO* bio)
{
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio, &data);
    return {data, static_cast<std::size_t>(size)};
}

std::string pem(X509* certificate)
{
    const BioPtr bio(BIO_new(BIO_s_mem()));
    PEM_write_bio_X509(bio.get(), certificate);
    return text_of(bio.get());
}

std::string pem(EVP_PKEY* key)
{
    const BioPtr bio(BIO_new(BIO_s_mem()));
    PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
    return text_of(bio.get());
}

CertPtr read_certificate(const std::string& text)
{
    const BioPtr bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
    return CertPtr(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
}

KeyPtr read_key(const std::string& text)
{
    const BioPtr bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
    return KeyPtr(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr));
}

bool add_extension(X509* certificate, X509* issuer, int kind, const std::string& value)
{
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
    if (extension == nullptr) return false;
    const bool added = X509_add_ext(certificate, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return added;
}

/// Without extensions and unsigned.
CertPtr blank(EVP_PKEY* key, const std::string& name, long days)
{
    CertPtr out(X509_new());
    if (!out || X509_set_version(out.get(), 2) != 1) return nullptr;
    unsigned char serial[16];
    if (RAND_bytes(&serial[0], sizeof serial) != 1) return nullptr;
    serial[0] &= 0x7f;
    const std::unique_ptr<BIGNUM, Free<BN_free>> number(BN_bin2bn(&serial[0], sizeof serial, nullptr));
    BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(out.get()));
    X509_gmtime_adj(X509_getm_notBefore(out.get()), -3600);
    X509_gmtime_adj(X509_getm_notAfter(out.get()), days * 24 * 3600);
    X509_set_pubkey(out.get(), key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(out.get()), "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    return out;
}

std::string alternatives(const std::vector<std::string>& names)
{
    std::string out;
    for (const auto& name : names) {
        unsigned char address[16];
        const bool numeric = ::inet_pton(AF_INET, name.c_str(), &address[0]) == 1 ||
                             ::inet_pton(AF_INET6, name.c_str(), &address[0]) == 1;
        out += fmt::format("{}{}:{}", out.empty() ? "" : ",", numeric ? "IP" : "DNS", name);
    }
    return out;
}

struct Pair {
    KeyPtr key;
    CertPtr certificate;
};

Result<Pair> authority(int directory)
{
    Pair out;
    const auto key = read_file_at(directory, "ca.key");
    const auto certificate = read_file_at(directory, "ca.pem");
    if (key && certificate) {
        out.key = read_key(*key);
        out.certificate = read_certificate(*certificate);
        if (out.key && out.certificate) return out;
    }
    out.key.reset(EVP_EC_gen("P-256"));
    if (!out.key) return broken("no key was made");
    out.certificate = blank(out.key.get(), "berth local authority", kAuthorityDays);
    if (!out.certificate) return broken("no certificate was made");
    X509* const own = out.certificate.get();
    X509_set_issuer_name(own, X509_get_subject_name(own));
    if (!add_extension(own, own, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
        !add_extension(own, own, NID_key_usage, "critical,keyCertSign,cRLSign") ||
        !add_extension(own, own, NID_subject_key_identifier, "hash"))
        return broken("an extension was refused");
    if (X509_sign(own, out.key.get(), EVP_sha256()) == 0) return broken("the authority was not signed");
    BERTH_CHECK(replace_file_at(directory, "ca.key", pem(out.key.get()), 0600));
    BERTH_CHECK(replace_file_at(directory, "ca.pem", pem(own), 0644));
    return out;
}

/// Made for these names, and good for another month.
bool still_good(int directory, const std::string& names)
{
    const auto made_for = read_file_at(directory, "server.names");
    const auto text = read_file_at(directory, "server.pem");
    if (!made_for || *made_for != names || !text) return false;
    const auto certificate = read_certificate(*text);
    std::time_t soon = ::time(nullptr) + 30L * 24 * 3600;
    return certificate && X509_cmp_time(X509_get0_notAfter(certificate.get()), &soon) > 0;
}

} // namespace

Result<SelfSigned> self_signed(const std::string& path, const std::vector<std::string>& names)
{
    BERTH_CHECK(make_dirs(path, 0700));
    const UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory) return fail_errno("opening {}", path);
    SelfSigned out{.files = {.certificate = path + "/server.pem", .key = path + "/server.key"},
                   .authority = path + "/ca.pem"};
    BERTH_TRY(const auto issuer, authority(directory.get()));
    const std::string wanted = alternatives(names);
    if (still_good(directory.get(), wanted)) return out;
    const KeyPtr key(EVP_EC_gen("P-256"));
    if (!key) return broken("no key was made");
    const auto certificate = blank(key.get(), "berth", kServerDays);
    if (!certificate) return broken("no certificate was made");
    X509_set_issuer_name(certificate.get(), X509_get_subject_name(issuer.certificate.get()));
    if (!add_extension(certificate.get(), issuer.certificate.get(), NID_subject_alt_name, wanted) ||
        !add_extension(certificate.get(), issuer.certificate.get(), NID_ext_key_usage, "serverAuth"))
        return fail(Code::Invalid, "a certificate cannot be made for: {}", wanted);
    if (X509_sign(certificate.get(), issuer.key.get(), EVP_sha256()) == 0)
        return broken("the certificate was not signed");
    BERTH_CHECK(replace_file_at(directory.get(), "server.key", pem(key.get()), 0600));
    BERTH_CHECK(replace_file_at(directory.get(), "server.pem",
                                pem(certificate.get()) + pem(issuer.certificate.get()), 0644));
    BERTH_CHECK(replace_file_at(directory.get(), "server.names", wanted, 0644));
    return out;
}

} // namespace berth::gate
