//! Amazon S3 as far as the SDK needs it: buckets and objects, path style.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use jiff::Timestamp;

use crate::braket::api::{decode, values};
use crate::error::{ApiError, escape};
use crate::signature::sha256_hex;

const XMLNS: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

/// An operation with what its path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// `PUT /bucket`.
    CreateBucket(String),
    /// `PUT /bucket?policy` and other settings of a bucket; accepted, without effect.
    ConfigureBucket(String),
    /// `HEAD /bucket`.
    HeadBucket(String),
    /// `GET /bucket?location`.
    GetBucketLocation(String),
    /// `GET /bucket?list-type=2&prefix=…`.
    ListObjectsV2(String, String),
    /// `GET /bucket/key`.
    GetObject(String, String),
    /// `HEAD /bucket/key`.
    HeadObject(String, String),
    /// `PUT /bucket/key`.
    PutObject(String, String),
    /// `DELETE /bucket/key`.
    DeleteObject(String, String),
}

impl Operation {
    /// Finds the operation of a request; the path and the query are raw.
    #[must_use]
    pub fn of(method: &str, path: &str, query: &str) -> Option<Self> {
        let (bucket, key) = path.strip_prefix('/')?.split_once('/').unwrap_or((&path[1..], ""));
        let (bucket, key) = (decode(bucket), decode(key));
        if bucket.is_empty() {
            return None;
        }
        Some(match (method, key.is_empty()) {
            ("PUT", true) if query.is_empty() => Self::CreateBucket(bucket),
            ("PUT", true) => Self::ConfigureBucket(bucket),
            ("HEAD", true) => Self::HeadBucket(bucket),
            ("GET", true) if query.split('&').any(|part| part.starts_with("location")) => {
                Self::GetBucketLocation(bucket)
            }
            ("GET", true) => {
                let prefix = values(query, "prefix").into_iter().next().unwrap_or_default();
                Self::ListObjectsV2(bucket, prefix)
            }
            ("GET", false) => Self::GetObject(bucket, key),
            ("HEAD", false) => Self::HeadObject(bucket, key),
            ("PUT", false) => Self::PutObject(bucket, key),
            ("DELETE", false) => Self::DeleteObject(bucket, key),
            _ => return None,
        })
    }

    /// The vendor's name of the operation.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::CreateBucket(_) => "CreateBucket",
            Self::ConfigureBucket(_) => "PutBucketConfiguration",
            Self::HeadBucket(_) => "HeadBucket",
            Self::GetBucketLocation(_) => "GetBucketLocation",
            Self::ListObjectsV2(..) => "ListObjectsV2",
            Self::GetObject(..) => "GetObject",
            Self::HeadObject(..) => "HeadObject",
            Self::PutObject(..) => "PutObject",
            Self::DeleteObject(..) => "DeleteObject",
        }
    }
}

/// An answer that is not an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// More headers.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Bytes,
}

impl Answer {
    fn empty(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Bytes::new() }
    }

    fn xml(text: String) -> Self {
        let headers = vec![("content-type", "application/xml".to_owned())];
        Self { status: 200, headers, body: Bytes::from(text) }
    }
}

#[derive(Debug, Clone)]
struct Object {
    body: Bytes,
    modified: Timestamp,
}

impl Object {
    fn etag(&self) -> String {
        format!("\"{}\"", &sha256_hex(&self.body)[..32])
    }

    fn headers(&self) -> Vec<(&'static str, String)> {
        vec![
            ("content-type", "binary/octet-stream".to_owned()),
            ("etag", self.etag()),
            ("last-modified", self.modified.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()),
        ]
    }
}

#[derive(Debug, Clone)]
struct Bucket {
    account: String,
    region: String,
    objects: BTreeMap<String, Object>,
}

/// All buckets.
#[derive(Debug, Clone, Default)]
pub struct Store(HashMap<String, Bucket>);

impl Store {
    /// Owner of a bucket.
    #[must_use]
    pub fn owner(&self, bucket: &str) -> Option<&str> {
        self.0.get(bucket).map(|bucket| bucket.account.as_str())
    }

    /// What an object holds, for a service that the owner lets read it.
    #[must_use]
    pub fn contents(&self, bucket: &str, key: &str) -> Option<Bytes> {
        Some(self.0.get(bucket)?.objects.get(key)?.body.clone())
    }

    /// A bucket that exists from the start; an existing one stays as it is.
    pub fn add_bucket(&mut self, account: &str, bucket: &str) {
        self.0.entry(bucket.to_owned()).or_insert_with(|| Bucket {
            account: account.to_owned(),
            region: "us-east-1".to_owned(),
            objects: BTreeMap::new(),
        });
    }

    /// Writes an object on behalf of a service; the bucket comes into being if it is missing.
    pub fn deposit(&mut self, account: &str, bucket: &str, key: &str, body: Bytes, now: Timestamp) {
        self.add_bucket(account, bucket);
        if let Some(bucket) = self.0.get_mut(bucket) {
            bucket.objects.insert(key.to_owned(), Object { body, modified: now });
        }
    }

    /// Carries an operation out.
    ///
    /// # Errors
    /// The error that the vendor answers.
    pub fn perform(
        &mut self,
        operation: &Operation,
        account: &str,
        region: &str,
        body: &Bytes,
        now: Timestamp,
    ) -> Result<Answer, ApiError> {
        Ok(match operation {
            Operation::CreateBucket(name) => {
                match self.owner(name) {
                    Some(owner) if owner != account => {
                        let text = "The requested bucket name is not available.";
                        return Err(ApiError::new("BucketAlreadyExists", text));
                    }
                    // The oldest region answers a repetition as a success.
                    Some(_) if region != "us-east-1" => {
                        let text = "The bucket you tried to create exists, and you own it.";
                        return Err(ApiError::new("BucketAlreadyOwnedByYou", text));
                    }
                    Some(_) => {}
                    None => {
                        let (account, region) = (account.to_owned(), region.to_owned());
                        let objects = BTreeMap::new();
                        self.0.insert(name.clone(), Bucket { account, region, objects });
                    }
                }
                Answer { headers: vec![("location", format!("/{name}"))], ..Answer::empty(200) }
            }
            Operation::ConfigureBucket(name) => {
                self.bucket(name, account)?;
                Answer::empty(200)
            }
            Operation::HeadBucket(name) => {
                let region = self.bucket(name, account)?.region.clone();
                Answer { headers: vec![("x-amz-bucket-region", region)], ..Answer::empty(200) }
            }
            Operation::GetBucketLocation(name) => {
                let region = escape(&self.bucket(name, account)?.region);
                let place = if region == "us-east-1" { "" } else { region.as_str() };
                Answer::xml(format!(
                    "<LocationConstraint xmlns=\"{XMLNS}\">{place}</LocationConstraint>"
                ))
            }
            Operation::ListObjectsV2(name, prefix) => {
                Answer::xml(list(name, prefix, self.bucket(name, account)?))
            }
            Operation::GetObject(name, key) => {
                let object = self.object(name, key, account)?;
                Answer { status: 200, headers: object.headers(), body: object.body.clone() }
            }
            Operation::HeadObject(name, key) => {
                let object = self.object(name, key, account)?;
                let mut headers = object.headers();
                headers.push(("content-length", object.body.len().to_string()));
                Answer { status: 200, headers, body: Bytes::new() }
            }
            Operation::PutObject(name, key) => {
                let object = Object { body: body.clone(), modified: now };
                let etag = object.etag();
                self.bucket(name, account)?.objects.insert(key.clone(), object);
                Answer { headers: vec![("etag", etag)], ..Answer::empty(200) }
            }
            Operation::DeleteObject(name, key) => {
                self.bucket(name, account)?.objects.remove(key);
                Answer::empty(204)
            }
        })
    }

    fn bucket(&mut self, name: &str, account: &str) -> Result<&mut Bucket, ApiError> {
        let bucket = self.0.get_mut(name).ok_or_else(|| {
            ApiError::new("NoSuchBucket", format!("The specified bucket does not exist: {name}"))
        })?;
        if bucket.account != account {
            return Err(ApiError::new("AccessDenied", "Access Denied"));
        }
        Ok(bucket)
    }

    fn object(&mut self, name: &str, key: &str, account: &str) -> Result<&Object, ApiError> {
        self.bucket(name, account)?.objects.get(key).ok_or_else(|| {
            ApiError::new("NoSuchKey", format!("The specified key does not exist: {key}"))
        })
    }
}

fn list(name: &str, prefix: &str, bucket: &Bucket) -> String {
    use std::fmt::Write;
    let hits: Vec<_> =
        bucket.objects.iter().filter(|(key, _)| key.starts_with(prefix)).take(1_000).collect();
    let mut text = format!(
        "<ListBucketResult xmlns=\"{XMLNS}\"><Name>{}</Name><Prefix>{}</Prefix>\
         <KeyCount>{}</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>",
        escape(name),
        escape(prefix),
        hits.len()
    );
    for (key, object) in hits {
        // Writing into a String cannot fail.
        let _ = write!(
            text,
            "<Contents><Key>{}</Key><LastModified>{:.3}</LastModified><ETag>{}</ETag>\
             <Size>{}</Size><StorageClass>STANDARD</StorageClass></Contents>",
            escape(key),
            object.modified,
            escape(&object.etag()),
            object.body.len()
        );
    }
    text.push_str("</ListBucketResult>");
    text
}

/// The body inside an `aws-chunked` encoding, or `None` if it is not well formed.
#[must_use]
pub fn unchunk(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    loop {
        let end = body.windows(2).position(|pair| pair == b"\r\n")?;
        let head = std::str::from_utf8(&body[..end]).ok()?;
        let size = usize::from_str_radix(head.split(';').next()?.trim(), 16).ok()?;
        if size == 0 {
            return Some(whole);
        }
        let data = body.get(end + 2..end + 2 + size)?;
        whole.extend_from_slice(data);
        body = body.get(end + 2 + size + 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(store: &mut Store, account: &str, method: &str, target: &str) -> Result<Answer, String> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let operation = Operation::of(method, path, query).unwrap();
        let body = Bytes::from_static(b"data");
        let now = Timestamp::UNIX_EPOCH;
        store.perform(&operation, account, "eu-north-1", &body, now).map_err(|error| error.code)
    }

    #[test]
    fn objects_belong_to_the_account_of_their_bucket() {
        let mut store = Store::default();
        assert_eq!(ask(&mut store, "1", "GET", "/b/k").unwrap_err(), "NoSuchBucket");
        assert_eq!(ask(&mut store, "1", "PUT", "/b").unwrap().status, 200);
        assert_eq!(ask(&mut store, "1", "PUT", "/b").unwrap_err(), "BucketAlreadyOwnedByYou");
        assert_eq!(ask(&mut store, "2", "PUT", "/b").unwrap_err(), "BucketAlreadyExists");
        assert_eq!(ask(&mut store, "1", "GET", "/b/a/k").unwrap_err(), "NoSuchKey");
        assert_eq!(ask(&mut store, "1", "PUT", "/b/a/k").unwrap().status, 200);
        assert_eq!(&ask(&mut store, "1", "GET", "/b/a%2Fk").unwrap().body[..], b"data");
        assert_eq!(ask(&mut store, "2", "GET", "/b/a/k").unwrap_err(), "AccessDenied");
        let listed = ask(&mut store, "1", "GET", "/b?list-type=2&prefix=a%2F").unwrap();
        assert!(String::from_utf8_lossy(&listed.body).contains("<Key>a/k</Key>"));
    }

    #[test]
    fn chunks_are_joined() {
        let chunked =
            b"4;chunk-signature=x\r\nwiki\r\n3\r\nped\r\n0\r\nx-amz-checksum-crc32:y\r\n\r\n";
        assert_eq!(unchunk(chunked).as_deref(), Some(&b"wikiped"[..]));
        assert_eq!(unchunk(b"9\r\nshort"), None);
    }
}
