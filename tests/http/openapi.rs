//! The OpenAPI description.

use std::collections::BTreeSet;

use serde_json::Value;

use super::support::Service;

async fn description(service: &Service) -> Value {
    service.get("/openapi.json").await.json()
}

#[tokio::test]
async fn description_is_openapi_3_1_and_lists_every_problem_type() {
    let service = Service::start().await;
    let described = description(&service).await;
    assert!(described["openapi"].as_str().unwrap().starts_with("3.1"), "{}", described["openapi"]);
    let listed = service.get("/problems").await.json();
    let types: BTreeSet<&str> =
        listed["problems"].as_array().unwrap().iter().map(|one| one["type"].as_str().unwrap()).collect();
    let named = &described["components"]["schemas"]["Problem"]["properties"]["type"]["enum"];
    let named: BTreeSet<&str> = named.as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    assert_eq!(types, named);
    for one in types {
        assert_eq!(service.get(one).await.json()["type"], one, "a type is a path that describes it");
    }
    assert_eq!(service.get("/problems/nope").await.problem(404), "unknown-problem");
}

#[tokio::test]
async fn every_reference_in_the_description_resolves() {
    let service = Service::start().await;
    let described = description(&service).await;
    let mut waiting = vec![&described];
    let mut references = 0;
    while let Some(value) = waiting.pop() {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(target)) = fields.get("$ref") {
                    references += 1;
                    assert!(described.pointer(target.trim_start_matches('#')).is_some(), "{target}");
                }
                waiting.extend(fields.values());
            }
            Value::Array(all) => waiting.extend(all),
            _ => {}
        }
    }
    assert!(references > 100, "{references}");
}

#[tokio::test]
async fn every_operation_has_a_unique_id_a_summary_and_a_tag() {
    let service = Service::start().await;
    let described = description(&service).await;
    let mut names = BTreeSet::new();
    for (path, methods) in described["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap();
            assert!(names.insert(name), "{name} is not unique");
            assert!(operation["summary"].as_str().is_some_and(|text| !text.is_empty()), "{method} {path}");
            assert!(operation["tags"][0].is_string(), "{method} {path}");
            assert!(operation["responses"]["200"].is_object() && operation["responses"]["503"].is_object());
        }
    }
    assert!(names.len() >= 18, "{names:?}");
}

#[tokio::test]
async fn docs_page_loads_no_external_resource() {
    let service = Service::start().await;
    let page = service.get("/docs").await;
    assert_eq!((page.status.as_u16(), page.header("content-type")), (200, "text/html; charset=utf-8"));
    assert!(page.header("content-security-policy").contains("default-src 'none'"));
    for outside in ["http://", "https://", "//cdn", "<link", "src="] {
        assert!(!page.text.contains(outside), "{outside}");
    }
    assert!(page.text.contains("fetch(\"openapi.json\")"));
}
